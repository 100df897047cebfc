"""Trees of values: the functions of `devrt.tree_util` under the names of JAX's ``jax.tree``."""

from __future__ import annotations

from devrt._pytree.functions import tree_all as all
from devrt._pytree.functions import tree_broadcast as broadcast
from devrt._pytree.functions import tree_flatten as flatten
from devrt._pytree.functions import tree_flatten_with_path as flatten_with_path
from devrt._pytree.functions import tree_leaves as leaves
from devrt._pytree.functions import tree_leaves_with_path as leaves_with_path
from devrt._pytree.functions import tree_map as map
from devrt._pytree.functions import tree_map_with_path as map_with_path
from devrt._pytree.functions import tree_reduce as reduce
from devrt._pytree.functions import tree_reduce_associative as reduce_associative
from devrt._pytree.functions import tree_structure as structure
from devrt._pytree.functions import tree_transpose as transpose
from devrt._pytree.functions import tree_unflatten as unflatten
from devrt._pytree.register import static

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]


def __dir__() -> list[str]:
    return sorted(__all__)
