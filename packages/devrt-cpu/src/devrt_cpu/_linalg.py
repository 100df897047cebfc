"""Linear algebra in compiled programs: LAPACK for the custom calls that XLA leaves to others.

The routines come from SciPy, or from the system's library. Neither is looked for before a program
names such a call.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from devrt.errors import UnimplementedError

__all__ = ["is_known", "known_calls", "named_calls", "provide"]

_CALL = re.compile(
    rb"\b(?:(?:lapack|blas)_[sdcz][a-z0-9]+_ffi|cpu_csr_sparse_dense_ffi"
    rb"|tridiagonal_solve_perturbed_ffi)(?![a-zA-Z0-9_])"
)
_SYSTEM = ("liblapack.so.3", "libopenblas.so.0", "liblapack.so", "libopenblas.so")


def named_calls(code: bytes) -> list[str]:
    """Return the LAPACK custom calls that an executable's or a program's bytes name."""
    if b"_ffi" not in code:  # a search that costs nothing, where the pattern's does
        return []
    return sorted({name.decode() for name in _CALL.findall(code)})


def is_known(name: str) -> bool:
    """Return whether a custom call is one that `provide` makes programs able to call."""
    return _CALL.fullmatch(name.encode()) is not None


def known_calls() -> list[str]:
    """Return the custom calls that `provide` makes programs able to call."""
    from devrt_cpu import _ext

    return sorted(_ext._lapack_custom_calls())


def provide(library: str, names: Iterable[str]) -> None:
    """Let a program call LAPACK through a plugin, if one of its custom calls is LAPACK's.

    If there is no LAPACK, the `UnimplementedError` says what to install.
    """
    wanted = sorted(filter(is_known, names))
    if not wanted:
        return
    from devrt_cpu import _ext

    _ext._provide_lapack(library, _find(wanted[0]))


def _find(wanted: str) -> dict[str, int]:
    found = _addresses()
    if found is None:
        from devrt.contract.installation import how_to_install  # only where it is missing

        msg = (
            f"the program calls {wanted}, which needs LAPACK. Install SciPy with: "
            f"{how_to_install('devrt-cpu[linalg]')}, or install the system's liblapack.so.3."
        )
        raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")
    return found


@functools.cache
def _addresses() -> dict[str, int] | None:
    from devrt_cpu import _ext

    names = _ext._lapack_routines()
    return _from_scipy(names) or _from_system(names)


def _from_scipy(names: Iterable[str]) -> dict[str, int] | None:
    """Return the addresses of SciPy's routines, which it lends in capsules; None without SciPy."""
    try:
        from scipy.linalg import cython_blas, cython_lapack
    except ImportError:
        return None
    import ctypes

    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = (
        ctypes.c_void_p,
        [ctypes.py_object, ctypes.c_char_p],
    )
    capsules = cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__
    found = {}
    for name in names:
        signature = get_name(capsules[name]) if name in capsules else b""
        if b" int *" not in signature:  # a build with 64-bit integers has another type there
            return None
        found[name] = get_pointer(capsules[name], signature)
    return found


def _from_system(names: Iterable[str]) -> dict[str, int] | None:
    """Return the addresses in the system's library, by their Fortran names; None without it."""
    import ctypes

    for file in _SYSTEM:
        try:
            library = ctypes.CDLL(file)
            functions = {name: getattr(library, name + "_") for name in names}
        except (OSError, AttributeError):
            continue
        return {n: ctypes.cast(f, ctypes.c_void_p).value or 0 for n, f in functions.items()}
    return None
