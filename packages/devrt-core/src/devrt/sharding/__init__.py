"""Meshes, partition specs and shardings: how arrays lie on devices.

Nothing here moves data. Importing the package imports no NumPy and no rich.
"""

from devrt.sharding._abstract_mesh import AbstractMesh
from devrt.sharding._axis_type import AxisType
from devrt.sharding._copy_plan import Blocks, CopyPlan, plan_copies
from devrt.sharding._device_list import (
    DeviceList,
    check_and_canonicalize_memory_kind,
    is_addressable,
)
from devrt.sharding._draw import render_sharding, sharding_table, visualize_sharding
from devrt.sharding._index_map import IndexMap, Placement, index_map
from devrt.sharding._make_mesh import make_mesh, make_mesh_from_devices
from devrt.sharding._mesh import Mesh, current_mesh
from devrt.sharding._named import NamedSharding
from devrt.sharding._shape import as_shape
from devrt.sharding._sharding import Sharding
from devrt.sharding._single import SingleDeviceSharding
from devrt.sharding._spec import P, PartitionSpec
from devrt.sharding._svg import sharding_svg
from devrt.sharding._topology_order import order_by_topology

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Blocks",
    "CopyPlan",
    "DeviceList",
    "IndexMap",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Placement",
    "Sharding",
    "SingleDeviceSharding",
    "as_shape",
    "check_and_canonicalize_memory_kind",
    "current_mesh",
    "index_map",
    "is_addressable",
    "make_mesh",
    "make_mesh_from_devices",
    "order_by_topology",
    "plan_copies",
    "render_sharding",
    "sharding_svg",
    "sharding_table",
    "visualize_sharding",
]
