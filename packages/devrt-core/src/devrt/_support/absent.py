"""The words for a name of the interface that this release does not have, or has elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Collection

__all__ = ["absent", "advice"]

_FORWARD = (
    "Forward-mode derivatives are not in this release. devrt.grad and devrt.vjp give those of "
    "reverse mode."
)
_ROWS = "devrt.lax.map(lambda row: pullback(row)[0], devrt.numpy.eye(n)) computes the rows."
_INSTEAD = {
    "devrt": {
        "ArrayProgram": "It is in another: from devrt.programs import ArrayProgram.",
        "load_program": "It is in another: from devrt.programs import load_program.",
        "vmap": "It is not in this release. Let the function broadcast over the leading axis, or "
        "use devrt.lax.map, which calls it with one row after another.",
        "jvp": _FORWARD,
        "linearize": _FORWARD,
        "jacfwd": f"{_FORWARD} With y, pullback = devrt.vjp(f, x), {_ROWS}",
        "jacrev": f"It is not in this release. With y, pullback = devrt.vjp(f, x), {_ROWS}",
        "hessian": "It is not in this release. With y, pullback = devrt.vjp(devrt.grad(f), x), "
        f"{_ROWS}",
        "custom_jvp": f"{_FORWARD} devrt.custom_vjp takes a function's own derivative.",
        "make_jaxpr": "Traces are StableHLO: devrt.jit(f).lower(*arguments).as_text() shows one.",
        "disable_jit": "There is no switch. Call the function itself, without devrt.jit: each "
        "operation then runs by itself. devrt.debug.print shows values in traced functions.",
        "scipy": "Its functions are not in this release. Write them with devrt.numpy and "
        "devrt.lax, such as devrt.lax.erf and devrt.lax.lgamma; devrt.numpy.linalg has linear "
        "algebra, and devrt.nn.logsumexp is there.",
    },
    "devrt.debug": {
        "breakpoint": "A traced function has no values to stop at. devrt.debug.print shows those "
        "of a run, and devrt.debug.callback calls a function with them.",
    },
    "devrt.lax": {
        "linalg": "devrt.numpy.linalg has linear algebra.",
        "platform_dependent": "Choose in Python, by devrt.default_backend() or the platform of the "
        "devices that the function is for.",
    },
    "devrt.random": {
        "gaussian": "Did you mean 'normal'?",
        "rand": "Did you mean 'uniform'?",
        "randn": "Did you mean 'normal'?",
        "seed": "There is no state to set: devrt.random.key(seed) makes a key, which each function "
        "takes.",
    },
}


def absent(module: str, name: str, present: Collection[str]) -> str:
    """Return why a module has no attribute of a name, and what to do; arguments as of `advice`."""
    return f"module {module!r} has no attribute {name!r}{advice(module, name, present)}"


def advice(module: str, name: str, present: Collection[str]) -> str:
    """Return what follows the words that a name is not there: what to do, or nothing.

    Parameters
    ----------
    module, name
        The module, and what it does not have.
    present
        The names that it has, one of which may have been meant.
    """
    if instead := _INSTEAD.get(module, {}).get(name):
        return f". {instead}"
    if name.startswith("_"):  # other libraries look for such names, and nobody means another
        return ""
    near = difflib.get_close_matches(name, present, n=1, cutoff=0.75)
    return f". Did you mean {near[0]!r}?" if near else ""
