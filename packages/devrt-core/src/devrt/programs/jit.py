"""`jit`: a Python function, compiled for the shapes and places of its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt import dtypes, tree_util
from devrt.arrays import Array
from devrt.programs.array_program import ArrayProgram
from devrt.programs.sdy import sharding_attribute
from devrt.runtime import default_runtime
from devrt.sharding import Mesh, NamedSharding
from devrt.tracing import (
    HIDDEN_TYPES,
    Meshes,
    ShapedArray,
    as_value,
    is_tracing,
    print_module,
    shaped,
    trace_graph,
)
from devrt.tracing.promotion import dtype_of_scalar

__all__ = ["JitFunction", "jit"]

HIDDEN_TYPES.add(Array)
_NUMBERS = (bool, int, float, complex)


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return a function that is traced once per kind of arguments, compiled, and then run."""
    if function is None:
        return functools.partial(jit, **options)
    return JitFunction(function, **options)


class JitFunction:
    """A function that runs as a compiled program."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: Any = (),
        static_argnames: Any = (),
    ) -> None:
        self._function = function
        functools.update_wrapper(self, function)
        self._static_names = (
            (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        )
        self._static_nums = (
            (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        )
        self._programs: dict[Any, Any] = {}
        self._signature: inspect.Signature | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments; in a trace, add its operations."""
        if is_tracing():
            return self._function(*args, **kwargs)
        statics, dynamic, named = self._split(args, kwargs)
        leaves, tree = tree_util.tree_flatten((dynamic, named))
        avals = tuple(_aval_of(leaf) for leaf in leaves)
        shardings = tuple(
            leaf.sharding if type(leaf) is Array and leaf.committed else None for leaf in leaves
        )
        key = (statics, tree, avals, shardings)
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = self._compile(statics, tree, avals, shardings, len(args))
        program, out_tree = found
        return tree_util.tree_unflatten(out_tree, program.call_flat(leaves))

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nums = set(self._static_nums)
        if self._static_names:
            if self._signature is None:
                self._signature = inspect.signature(self._function)
            names = list(self._signature.parameters)
            nums |= {names.index(name) for name in self._static_names if name in names}
        fixed: tuple[Any, ...] = tuple((i, a) for i, a in enumerate(args) if i in nums)
        fixed += tuple((k, kwargs[k]) for k in sorted(kwargs) if k in self._static_names)
        return (
            fixed,
            tuple(a for i, a in enumerate(args) if i not in nums),
            {k: v for k, v in kwargs.items() if k not in self._static_names},
        )

    def _compile(self, statics: Any, tree: Any, avals: Any, shardings: Any, count: int) -> Any:
        out_tree = None

        def flat(*parameters: Any) -> None:
            nonlocal out_tree
            dynamic, named = tree_util.tree_unflatten(tree, parameters)
            fixed = dict(statics)
            rest = iter(dynamic)
            args = [fixed[i] if i in fixed else next(rest) for i in range(count)]
            kwargs = {**named, **{k: v for k, v in fixed.items() if isinstance(k, str)}}
            results = self._function(*args, **kwargs)
            leaves, out_tree = tree_util.tree_flatten(results)
            from devrt.tracing import current_graph

            current_graph().results = [as_value(leaf) for leaf in leaves]

        name = f"jit_{getattr(self._function, '__name__', 'function')}"
        graph, _ = trace_graph(flat, avals, name, outermost=True)
        named = dict.fromkeys(s.mesh for s in shardings if isinstance(s, NamedSharding))
        meshes = Meshes([*named, *graph.meshes])
        mesh: Any = next((m for m in [*named, *graph.meshes] if isinstance(m, Mesh)), None)
        hidden = [array for array, _ in graph.hidden.values()]
        attributes = [""] * len(hidden) + [
            sharding_attribute(s, len(a.shape), meshes)
            for s, a in zip(shardings, avals, strict=True)
        ]
        printed = print_module(graph, name, arguments=attributes, meshes=meshes)
        if mesh is not None:
            devices = list(mesh.devices.flat)
        else:
            first = next((s for s in shardings if s is not None), None)
            devices = [first._device_assignment[0] if first else default_runtime().default_device()]
        executable = devices[0].client.compile_and_load(printed.text, devices)
        return ArrayProgram(executable, mesh if len(devices) > 1 else None, None, hidden), out_tree


def _aval_of(leaf: Any) -> ShapedArray:
    if isinstance(leaf, _NUMBERS) and not isinstance(leaf, np.generic):
        return shaped((), dtype_of_scalar(leaf), type(leaf) is not bool)
    return shaped(tuple(leaf.shape), dtypes.to_numpy(dtypes.code_of(leaf.dtype)))
