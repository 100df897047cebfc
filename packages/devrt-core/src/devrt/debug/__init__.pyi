from devrt.arrays.visualize import inspect_array_sharding as inspect_array_sharding
from devrt.arrays.visualize import visualize_array_sharding as visualize_array_sharding
from devrt.debug.callbacks import callback as callback
from devrt.debug.callbacks import print as print
