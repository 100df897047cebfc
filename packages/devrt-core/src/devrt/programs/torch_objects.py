"""PyTorch's exported programs, by way of torchax, which is imported only for one."""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.errors import UnimplementedError
from devrt.programs.exported import Exported
from devrt.programs.jax_objects import read_jax_object
from devrt.programs.trees import LEAF, Node, Tree

__all__ = ["read_torch_object"]

_INSTALL = "pip install torchax==0.0.13 torch==2.12.1 jax==0.10.2"


def read_torch_object(value: Any) -> Exported | None:
    """Return what `torch.export` made, as StableHLO with its weights; None of anything else."""
    names = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__}
    return _exported(value) if ("torch", "ExportedProgram") in names else None


def _exported(value: Any) -> Exported:
    convert = _stablehlo_of()
    with _wide_types():
        weights, lowered = convert(value)
    found = read_jax_object(lowered)
    assert found is not None
    inputs, _ = lowered.in_tree.children()
    leaves = inputs.children()[0].flatten_up_to(weights)
    count = len(leaves)
    return dataclasses.replace(
        found,
        name="forward",
        in_tree=Tree(_node(value.call_spec.in_spec)),
        out_tree=Tree(_results(value.call_spec.out_spec, found.out_tree.node)),
        shapes=found.shapes[count:],
        kept=tuple(number - count for number in found.kept if number >= count),
        first=tuple(np.asarray(leaves[number]) for number in found.kept if number < count),
    )


def _wide_types() -> Any:
    """Return a context in which JAX keeps PyTorch's 64-bit types, such as those of indices."""
    jax = sys.modules["jax"]  # torchax imports it
    home = jax if hasattr(jax, "enable_x64") else jax.experimental
    return home.enable_x64(True)


def _stablehlo_of() -> Callable[[Any], tuple[Any, Any]]:
    try:
        from torchax.export import exported_program_to_stablehlo
    except (ImportError, RuntimeError, AttributeError) as error:  # of a torch that it does not know
        msg = (
            "load_program takes torch's ExportedProgram by way of torchax, which cannot be "
            f"imported here: {error}. Install what makes StableHLO of it ({_INSTALL}), or export "
            "it where that is installed."
        )
        raise UnimplementedError(msg, operation="load_program") from error
    made: Callable[[Any], tuple[Any, Any]] = exported_program_to_stablehlo
    return made


def _node(spec: Any) -> Node:
    """Return the node of one of PyTorch's tree specifications, where None is a leaf."""
    if spec.type is None:
        return LEAF
    found = (
        spec.children() if hasattr(spec, "children") else spec.children_specs
    )  # of older versions
    children = tuple(map(_node, found))
    kind, keys = spec.type, spec.context
    if kind in (tuple, list):
        return Node(kind, children)
    if kind in (dict, OrderedDict):
        return Node(kind, children, tuple(keys))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return Node(kind, children, tuple(kind._fields), kind.__name__)
    return Node(Node, children, (), kind.__name__)


def _results(spec: Any, made: Node | None) -> Node:
    """Return the node of a result: of PyTorch's leaves those are none that are no arrays."""
    assert made is not None
    leaves = iter(made.children)

    def filled(node: Node) -> Node:
        if node.kind is None:
            return next(leaves)
        return dataclasses.replace(node, children=tuple(map(filled, node.children)))

    return filled(_node(spec))
