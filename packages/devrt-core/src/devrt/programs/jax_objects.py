"""Objects of JAX, read by their attributes: JAX is not imported here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any

from devrt.errors import InvalidTypeError
from devrt.programs.exported import Exported
from devrt.programs.trees import LEAF, NONE, Node, OpaqueTree, Tree

__all__ = ["library_of", "read_jax_object"]


def library_of(value: object) -> str:
    """Return the top-level package of a value's class."""
    return type(value).__module__.partition(".")[0]


def read_jax_object(value: Any) -> Exported | None:
    """Return what an export, a traced or a lowered function of JAX says; None of anything else."""
    readers = {"Exported": _exported, "Lowered": _lowered, "Traced": _traced}
    for cls in type(value).__mro__:
        if cls.__module__.partition(".")[0] == "jax" and cls.__name__ in readers:
            return readers[cls.__name__](value)
    return None


def _exported(value: Any) -> Exported:
    return Exported(
        name=value.fun_name,
        code=bytes(value.mlir_module_serialized),
        in_tree=tree_of(value.in_tree),
        out_tree=tree_of(value.out_tree),
        shapes=_shapes(value.in_avals),
        kept=tuple(value.module_kept_var_idx),
        platforms=tuple(value.platforms),
        is_for_any_platform="platform" in map(str, value.disabled_safety_checks),
        convention=value.calling_convention_version,
        ordered_effects=tuple(map(str, value.ordered_effects)),
    )


def _traced(value: Any) -> Exported:
    return _lowered(value.lower())


def _lowered(value: Any) -> Exported:
    lowering = value._lowering
    facts = getattr(lowering, "compile_args", None)
    if not isinstance(facts, Mapping) or "kept_var_idx" not in facts:
        msg = (
            "this version of jax does not tell which arguments of a lowered function its program "
            "takes. Give jax.export.export(jax.jit(f))(arguments) instead."
        )
        raise InvalidTypeError(msg, operation="load_program")
    constants = tuple(getattr(lowering, "const_args", ()))
    kept = sorted(number - len(constants) for number in facts["kept_var_idx"])
    tree = value.in_tree
    return Exported(
        name=getattr(lowering, "_name", "lowered"),
        code=value.as_text(),
        in_tree=tree_of(tree),
        out_tree=tree_of(value.out_tree),
        shapes=_shapes(tree.flatten_up_to(value.args_info)),
        kept=tuple(number for number in kept if number >= 0),
        first=constants,
        ordered_effects=tuple(map(str, facts.get("ordered_effects", ()))),
    )


def _shapes(values: Iterable[Any]) -> tuple[tuple[int | str, ...], ...]:
    return tuple(
        tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        for value in values
    )


def tree_of(definition: Any) -> Tree | OpaqueTree:
    """Return a tree definition of JAX's; as it is where only JAX knows a class in it."""
    node = _node(definition)
    return OpaqueTree(definition) if node is None else Tree(node)


def _node(definition: Any) -> Node | None:
    data = definition.node_data()
    if data is None:
        return LEAF
    kind, keys = data
    if kind is NoneType:
        return NONE
    children = [_node(child) for child in definition.children()]
    known = tuple(child for child in children if child is not None)
    if len(known) < len(children):
        return None
    if kind in (tuple, list):
        return Node(kind, known)
    if kind in (dict, OrderedDict):
        return Node(kind, known, tuple(keys))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return Node(kind, known, tuple(kind._fields), kind.__name__)
    return None
