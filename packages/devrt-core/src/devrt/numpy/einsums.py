"""Einstein's sums: products of arrays by the names of their dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import refuse_out
from devrt.numpy.diagonals import diagonal
from devrt.numpy.products import contract
from devrt.numpy.reductions import sum as total
from devrt.programs.eager import operation
from devrt.tracing import DotDimensions, as_value, at_user_line, convert, dtype_of

__all__ = ["einsum", "einsum_path"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_STATIC = ("subscripts", "optimize", "precision", "preferred_element_type")


def einsum(
    subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "optimal",
    precision: Any = None, preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Return the sum of products over the dimensions that the result does not name.

    ``einsum("ij,jk->ik", x, y)`` is the product of two matrices; NumPy's form with lists of
    integers after each operand is taken too. ``optimize`` chooses the order for three operands and
    more, as NumPy's `einsum_path` does.
    """
    refuse_out(out, "einsum")
    if not isinstance(subscripts, str):
        subscripts, operands = _named(subscripts, *operands)
    wanted = {"precision": precision, "preferred_element_type": preferred_element_type}
    return _einsum(operands, subscripts=subscripts, optimize=optimize, **wanted)


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "greedy") -> Any:
    """Return the order of products that `einsum` takes, and a table of it as text."""
    if not isinstance(subscripts, str):
        subscripts, operands = _named(subscripts, *operands)
    shapes = [np.broadcast_to(np.float32(0), x.shape) for x in operands]
    return np.einsum_path(subscripts, *shapes, optimize=optimize)


def _named(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts as text: from operands that lists of integers follow."""
    count = len(given) // 2
    texts = [
        "".join("..." if i is ... else _LETTERS[i] for i in given[2 * k + 1]) for k in range(count)
    ]
    result = ""
    if len(given) % 2:
        result = "->" + "".join("..." if i is ... else _LETTERS[i] for i in given[-1])
    return ",".join(texts) + result, given[0 : 2 * count : 2]


def _refused(subscripts: str, why: str) -> InvalidArgumentError:
    msg = f"einsum: {subscripts!r} does not fit{at_user_line()}: {why}."
    return InvalidArgumentError(msg, subscripts=subscripts)


@operation(static=_STATIC)
def _einsum(
    operands: Sequence[Any], *, subscripts: str, optimize: Any, precision: Any,
    preferred_element_type: Any,
) -> Any:  # fmt: skip
    values = [as_value(x) for x in operands]
    names, result = _parsed(subscripts, [x.ndim for x in values])
    sizes = _sizes(subscripts, names, values)
    dtype = preferred_element_type
    if dtype is None:
        dtype = tracing.result_type(*values)[0]
    terms = list(zip(names, values, strict=True))
    for chosen in _path(terms, result, optimize):
        taken = [terms[i] for i in sorted(chosen)]
        terms = [term for i, term in enumerate(terms) if i not in chosen]
        kept = set(result).union(*(name for name, _ in terms))
        terms.append(_product(taken, kept, sizes, precision, dtype))
    return _ordered(*terms[0], result, dtype_of(dtype))


def _parsed(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, those in place of dots included."""
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    names = given.split(",")
    if len(names) != len(ranks):
        raise _refused(subscripts, f"it names {len(names)} operands, and {len(ranks)} are given")
    free = [c for c in reversed(_LETTERS) if c not in text]
    more = [rank - len(name.replace("...", "")) for name, rank in zip(names, ranks, strict=True)]
    dots = "".join(
        free[: max([n for n, name in zip(more, names, strict=True) if "..." in name] + [0])]
    )
    for i, (name, n) in enumerate(zip(names, more, strict=True)):
        if n < 0 or (n and "..." not in name):
            raise _refused(subscripts, f"operand {i} has {ranks[i]} dimensions")
        names[i] = name.replace("...", dots[len(dots) - n :])
    if not all(c in _LETTERS for c in "".join(names) + result.replace("...", "")):
        raise _refused(subscripts, "dimensions have letters as names")
    if not arrow:
        counts = Counter("".join(names))
        single = sorted(c for c in counts if counts[c] == 1 and c not in dots)
        result = "..." + "".join(single)
    result = result.replace("...", dots)
    unknown = sorted(set(result).difference(*names))
    if unknown or len(set(result)) < len(result):
        raise _refused(subscripts, f"the result names {unknown or 'a dimension twice'}")
    return names, result


def _sizes(subscripts: str, names: Sequence[str], values: Sequence[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, x in zip(names, values, strict=True):
        for c, size in zip(name, x.shape, strict=True):
            if 1 not in (size, sizes.get(c, 1)) and sizes[c] != size:
                which = " and ".join(str(x.aval) for x in values)
                raise _refused(subscripts, f"{c!r} is of sizes {sizes[c]} and {size} in {which}")
            sizes[c] = size if sizes.get(c, 1) == 1 else sizes[c]
    return sizes


def _path(terms: Sequence[Any], result: str, optimize: Any) -> list[tuple[int, ...]]:
    """Return which terms to multiply next, each time by their positions in what is left."""
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    text = ",".join(name for name, _ in terms) + "->" + result
    shapes = [np.broadcast_to(np.float32(0), x.shape) for _, x in terms]
    if optimize is False or optimize is None:
        # From left to right: the product so far is always the last term.
        return [(0, 1), *[(0, left - 1) for left in range(len(terms) - 1, 1, -1)]]
    if isinstance(optimize, tuple):
        return [step for step in optimize if not isinstance(step, str)]
    order = "greedy" if optimize is True or len(terms) > 6 else optimize
    return [tuple(step) for step in np.einsum_path(text, *shapes, optimize=order)[0][1:]]


def _product(
    terms: Sequence[Any], kept: set[str], sizes: dict[str, int], precision: Any, dtype: Any
) -> Any:
    """Return the product of terms, summed over the dimensions that are not kept."""
    name, x = terms[0]
    if len(terms) == 1:
        return _summed(name, x, kept, sizes)
    for i, (other, y) in enumerate(terms[1:], 2):
        later = kept.union(*(name for name, _ in terms[i:]))
        name, x = _pair(name, x, other, y, later, sizes, precision, dtype)
    return name, x


def _summed(name: str, x: Any, kept: set[str], sizes: dict[str, int]) -> tuple[str, Any]:
    """Return a term with the diagonal of dimensions named twice, summed over what is not kept."""
    for c in sorted(set(name)):
        while name.count(c) > 1:
            first = name.index(c)
            second = name.index(c, first + 1)
            if x.shape[first] != x.shape[second]:
                shape = tuple(sizes[c] if n == c else k for n, k in zip(name, x.shape, strict=True))
                x = tracing.broadcast_to(x, shape)
            x = diagonal(x, 0, first, second)
            name = name[:first] + name[first + 1 : second] + name[second + 1 :] + c
    gone = [i for i, c in enumerate(name) if c not in kept]
    if gone:
        x = total(x, axis=tuple(gone), promote_integers=False)
    return "".join(c for c in name if c in kept), x


def _pair(
    name: str, x: Any, other: str, y: Any, kept: set[str], sizes: dict[str, int],
    precision: Any, dtype: Any,
) -> tuple[str, Any]:  # fmt: skip
    name, x = _summed(name, x, kept | set(other), sizes)
    other, y = _summed(other, y, kept | set(name), sizes)
    shared = [c for c in name if c in other]
    x, y = _widened(name, x, y, other, shared, sizes), _widened(other, y, x, name, shared, sizes)
    batch = [c for c in shared if c in kept]
    summed = [c for c in shared if c not in kept]
    dimensions = DotDimensions(
        tuple(name.index(c) for c in summed),
        tuple(other.index(c) for c in summed),
        tuple(name.index(c) for c in batch),
        tuple(other.index(c) for c in batch),
    )
    rest = [c for c in name + other if c not in shared]
    return "".join(batch + rest), contract(x, y, dimensions, precision, dtype)


def _widened(name: str, x: Any, y: Any, other: str, shared: Sequence[str], sizes: Any) -> Any:
    """Return a term with dimensions of size 1 repeated where the other term's are larger."""
    shape = tuple(
        max(n, y.shape[other.index(c)]) if c in shared else n
        for c, n in zip(name, x.shape, strict=True)
    )
    return tracing.broadcast_to(x, shape)


def _ordered(name: str, x: Any, result: str, dtype: Any) -> Any:
    x = tracing.transpose(x, [name.index(c) for c in result])
    return convert(x, dtype, weak_type=x.weak_type)
