from devrt.experimental import layout as layout
from devrt.experimental import mesh_utils as mesh_utils
from devrt.experimental import multihost_utils as multihost_utils
from devrt.experimental import shard_map as shard_map
from devrt.experimental import transfer as transfer
