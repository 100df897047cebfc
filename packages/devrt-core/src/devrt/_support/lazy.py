"""Packages whose names are imported when they are first used.

The names stand once, in the package's ``__init__.pyi``, one ``from module import name as name`` a
line: type checkers and editors read it as a stub, and this module reads it as the table of what to
import from where. This is the scheme of Scientific Python's SPEC 1.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["attach", "explain_absent"]


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that has a stub."""
    modules = _read_stub(package)

    def get(name: str) -> Any:
        module = modules.get(name)
        if module is None:
            from devrt._support.absent import absent  # seldom needed, and start-up counts

            raise AttributeError(absent(package, name, names))
        # A name that comes from the package itself is a module of it.
        found = _imported(f"{package}.{name}" if module == package else module)
        value = found if module == package else getattr(found, name)
        setattr(sys.modules[package], name, value)
        return value

    for name, module in modules.items():
        if module == f"{package}.{name}":  # importing it later would put the module in its place
            get(name)
    names = sorted(modules)
    return get, lambda: [*names], names


def explain_absent(package: str, explain: Callable[[str], str]) -> None:
    """Let imports of what a package does not have say why: Python's own error names no reason.

    Parameters
    ----------
    package
        The package.
    explain
        Returns what to do about the last part of a name, to follow Python's words.
    """
    sys.meta_path.append(_LastFinder(package, explain))


class _LastFinder:
    """Takes a name that no finder knows; raises if it would be one of its package's."""

    def __init__(self, package: str, explain: Callable[[str], str]) -> None:
        self._package = package
        self._explain = explain

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        package, _, last = name.rpartition(".")
        if package == self._package:
            # Under its own name ``from package import last`` would drop the error for Python's.
            words = self._explain(last)
            if _is_from_import():
                raise ImportError(f"cannot import name {last!r} from {package!r}{words}")
            raise ModuleNotFoundError(f"No module named {name!r}{words}", name=package)


def _is_from_import() -> bool:
    """Return whether a ``from`` statement looks for a module, as it found no attribute."""
    frame = sys._getframe(2)
    while (caller := frame.f_back) is not None and "importlib._bootstrap" in (
        caller.f_code.co_filename
    ):
        frame = caller
    return frame.f_code.co_name == "_handle_fromlist"


def _imported(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def _read_stub(package: str) -> dict[str, str]:
    """Return the module of each name, read from the stub beside the package's ``__init__.py``."""
    spec = sys.modules[package].__spec__
    assert spec is not None
    assert spec.origin is not None
    text = spec.loader.get_data(f"{spec.origin.rpartition('.')[0]}.pyi").decode()  # type: ignore[union-attr]
    rows = (line.split() for line in text.splitlines() if line.startswith("from "))
    return {row[5]: row[1] for row in rows if row[4:5] == ["as"]}
