"""`grad` and `value_and_grad`: functions that compute the gradient of another one."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt._pytree import array_trees
from devrt.arrays import Array
from devrt.errors import InvalidTypeError
from devrt.programs.arguments import check_callable
from devrt.programs.differentiate import Options, no_cotangents, value_and_gradients
from devrt.programs.jit import JitFunction
from devrt.programs.tracebacks import shortened
from devrt.tracing import at_user_line, is_tracing

__all__ = ["CallOf", "grad", "program_of", "value_and_grad"]


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``fun``.

    Parameters
    ----------
    fun
        Returns one real scalar.
    argnums
        The positions of the arguments to differentiate by: trees of fractions or complex numbers.
    has_aux
        Whether ``fun`` returns a pair: the scalar, and what else it has, which is returned too.
    holomorphic
        Whether ``fun`` is holomorphic: it takes and returns complex numbers.
    allow_int
        Whether arguments may hold integers; their gradients are of a dtype without bytes.

    Returns
    -------
    callable
        Takes what ``fun`` takes; returns the gradient, a tree like the argument (a tuple of them
        for several ``argnums``), or a pair with what else ``fun`` has.

    Examples
    --------
    >>> import devrt
    >>> devrt.grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    @shortened
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(
    fun: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes both the value and the gradient of ``fun``.

    Takes what `grad` takes. The function returns the value (with ``has_aux`` the pair that ``fun``
    returns) and the gradient.
    """
    check_callable("grad", fun)
    numbers, is_one = _numbers(argnums)
    options = Options(numbers, is_one, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    @shortened
    def valued(*args: Any, **kwargs: Any) -> Any:
        chosen = [args[i] for i in options.positions(len(args))]
        if is_tracing():
            value, aux, gradients = value_and_gradients(fun, options, args, kwargs)
        else:
            value, aux, gradients = _run(fun, options, args, kwargs)
        leaves, tree = array_trees.tree_flatten(chosen)
        pairs = zip(leaves, gradients, strict=True)
        filled = [no_cotangents(x) if g is None else g for x, g in pairs]
        found = array_trees.tree_unflatten(tree, filled)
        result = found[0] if options.is_one else tuple(found)
        return ((value, aux) if has_aux else value), result

    return valued


def _numbers(argnums: Any) -> tuple[tuple[int, ...], bool]:
    """Return the positions to differentiate by, and whether one was given alone."""
    is_one = hasattr(argnums, "__index__")
    try:
        return tuple(map(operator.index, (argnums,) if is_one else argnums)), is_one
    except TypeError as error:
        msg = (
            f"grad: argnums is {argnums!r:.80}{at_user_line()}. Give the position of the argument "
            "to differentiate by, an integer, or a tuple of them."
        )
        raise InvalidTypeError(msg, argnums=argnums) from error


def _run(fun: Callable[..., Any], options: Options, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Compute value and gradients as a program of its own."""
    program = program_of(fun, options, _made)
    positions = set(options.positions(len(args)))
    call, leaves = CallOf.taken_apart(args, kwargs, positions)
    value, aux, gradients = program(leaves, call=call)
    return value, aux, gradients


def _made(function: Callable[[], Callable[..., Any]], options: Options) -> Callable[..., Any]:
    def program(leaves: Sequence[Any], call: CallOf) -> Any:
        args, kwargs = call.put_together(leaves)
        return value_and_gradients(function(), options, args, kwargs)

    return program


_programs: weakref.WeakKeyDictionary[Any, dict[Any, JitFunction]] = weakref.WeakKeyDictionary()


def program_of(
    fun: Callable[..., Any], key: Any, make: Callable[[Callable[[], Any], Any], Callable[..., Any]]
) -> JitFunction:
    """Return the compiled function that belongs to another one, for as long as that one lives.

    ``make`` takes a function that returns ``fun``, and the key. A gradient that is taken anew in
    each turn of a loop is compiled once.
    """
    try:
        known = _programs.setdefault(fun, {})
    except TypeError:  # no weak references to it, or no hash
        return _jitted(make(lambda: fun, key), fun)
    if key not in known:
        # A method is another object at each use, which nobody else holds.
        is_lasting = not hasattr(fun, "__self__")
        kept = weakref.ref(fun) if is_lasting else (lambda: fun)
        known[key] = _jitted(make(kept, key), fun)
    return known[key]


def _jitted(program: Callable[..., Any], fun: Callable[..., Any]) -> JitFunction:
    program.__name__ = f"grad_{getattr(fun, '__name__', 'function')}"
    return JitFunction(program, static_argnames=("call",))


class CallOf(NamedTuple):
    """What of a call decides which program it is: its structure, and what is no array.

    Python's integers, truth values, strings and other objects are fixed: they may decide shapes and
    branches. Its fractions are parameters.
    """

    tree: Any
    size: int
    fixed: tuple[tuple[int, type, Any], ...]

    @classmethod
    def taken_apart(
        cls, args: Sequence[Any], kwargs: Any, chosen: set[int]
    ) -> tuple[CallOf, list[Any]]:
        """Return a call and its arrays; arguments at ``chosen`` are arrays as a whole."""
        leaves, tree = array_trees.tree_flatten((tuple(args), dict(kwargs)))
        counts = [len(array_trees.tree_leaves(arg)) for arg in args]
        is_chosen = [i in chosen for i, count in enumerate(counts) for _ in range(count)]
        is_chosen += [False] * (len(leaves) - len(is_chosen))
        is_array = [
            each or isinstance(leaf, _ARRAYS) for leaf, each in zip(leaves, is_chosen, strict=True)
        ]
        pairs = list(enumerate(zip(leaves, is_array, strict=True)))
        fixed = tuple((i, type(leaf), leaf) for i, (leaf, each) in pairs if not each)
        return cls(tree, len(leaves), fixed), [leaf for _, (leaf, each) in pairs if each]

    def put_together(self, leaves: Sequence[Any]) -> Any:
        """Return positional and named arguments, with other arrays."""
        fixed = {i: leaf for i, _, leaf in self.fixed}
        rest = iter(leaves)
        both = [fixed[i] if i in fixed else next(rest) for i in range(self.size)]
        return array_trees.tree_unflatten(self.tree, both)


_ARRAYS = Array | np.ndarray | np.generic | float | complex
