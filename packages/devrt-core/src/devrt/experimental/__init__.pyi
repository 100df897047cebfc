from devrt.experimental import layout as layout
from devrt.experimental import mesh_utils as mesh_utils
