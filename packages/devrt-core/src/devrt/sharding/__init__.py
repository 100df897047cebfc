"""Meshes, partition specs and shardings: how arrays lie on devices.

Nothing here moves data. Importing the package imports no NumPy and no rich.
"""

from devrt.sharding.abstract_mesh import AbstractMesh
from devrt.sharding.axis_type import AxisType
from devrt.sharding.copy_cost import CopyCost, cost_of
from devrt.sharding.copy_plan import Blocks, CopyPlan, plan_copies
from devrt.sharding.device_list import (
    DeviceList,
    check_and_canonicalize_memory_kind,
    is_addressable,
)
from devrt.sharding.device_mesh import make_mesh, make_mesh_from_devices
from devrt.sharding.drawing.svg import sharding_svg
from devrt.sharding.drawing.text import render_sharding, sharding_table, visualize_sharding
from devrt.sharding.gspmd import GSPMDSharding
from devrt.sharding.index_maps import IndexMap, Placement, index_map
from devrt.sharding.mesh import Mesh, current_mesh
from devrt.sharding.mesh_utils import create_device_mesh, create_hybrid_device_mesh
from devrt.sharding.named import NamedSharding
from devrt.sharding.shape import as_shape
from devrt.sharding.sharding import Sharding
from devrt.sharding.single import SingleDeviceSharding
from devrt.sharding.spec import P, PartitionSpec
from devrt.sharding.topology_order import order_by_topology

__all__ = [
    "AbstractMesh",
    "AxisType",
    "Blocks",
    "CopyCost",
    "CopyPlan",
    "DeviceList",
    "GSPMDSharding",
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
    "cost_of",
    "create_device_mesh",
    "create_hybrid_device_mesh",
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
