"""Names of a package that is not there: they may be used, and their values not looked at."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["REGISTERING", "Unknown", "UnknownValueError"]

REGISTERING = ("register_plugin", "register_backend_factory")


class UnknownValueError(RuntimeError):
    """A value was looked at that only the real package has."""


class Unknown:
    """A name of the real package that is not made here."""

    def __init__(self, name: str, missing: list[str]) -> None:
        self.__name, self.__missing = name, missing

    def __getattr__(self, name: str) -> Unknown:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Unknown(f"{self.__name}.{name}", self.__missing)

    def __call__(self, *args: Any, **named: Any) -> Unknown:
        """Return another unknown, or refuse to lose a registration."""
        if self.__name.rpartition(".")[2] in REGISTERING:
            self.__refuse()  # a backend would be lost without a word
        return Unknown(f"{self.__name}()", self.__missing)

    def __getitem__(self, key: Any) -> Unknown:
        return Unknown(f"{self.__name}[]", self.__missing)

    def __or__(self, other: Any) -> Unknown:  # an annotation, X | None
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __enter__(self) -> Unknown:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"<{self.__name}, of which nothing is known here>"

    def __refuse(self, *args: Any) -> NoReturn:
        if self.__name not in self.__missing:
            self.__missing.append(self.__name)
        raise UnknownValueError(f"the value of {self.__name} is not known without JAX")

    __hash__ = object.__hash__
    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __refuse
    __iter__ = __len__ = __contains__ = __str__ = __fspath__ = __format__ = __refuse
    __int__ = __float__ = __index__ = __add__ = __radd__ = __sub__ = __rsub__ = __refuse
