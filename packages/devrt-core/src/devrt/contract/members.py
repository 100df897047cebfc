"""Which members a class of the contract must have, and one error for all that one lacks."""

from __future__ import annotations

import abc

from devrt.contract.deprecation import warn_of_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = ["Contract", "lacking", "members"]


_CONTRACT = "devrt.contract."
_DUNDERS = ("__array__", "__call__", "__dlpack__", "__dlpack_device__")


class Contract(abc.ABCMeta):
    """The metaclass of the contract's classes: refuses to register what is no such class."""

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> None:
        super().__init__(name, bases, space)
        is_own = cls.__module__.startswith(_CONTRACT)
        for kind in () if is_own else cls.__mro__[1:]:
            if kind.__module__.startswith(_CONTRACT):
                _warn_of_members(cls, kind, space)

    def register(cls, subclass: type[T]) -> type[T]:
        """Let a class count as one of these; a native one, which cannot derive from them.

        A registered class inherits nothing; members with a default that it lacks are given to it.

        Raises
        ------
        PluginContractError
            If it lacks members without a default; the message names all of them.
        """
        own = dict(vars(subclass))
        missing = lacking(subclass, cls)
        missing = tuple(name for name in missing if not _give(subclass, cls, name))
        if missing:
            from devrt.errors import PluginContractError

            msg = (
                f"class {subclass.__module__}.{subclass.__qualname__} cannot be registered as "
                f"devrt.contract.{cls.__name__}: it lacks {', '.join(missing)}. Give it these "
                "members; docs/backend-authors/contract.md says what each does."
            )
            raise PluginContractError(msg, phase="contract", missing=missing)
        _warn_of_members(subclass, cls, own)
        return super().register(subclass)


def _warn_of_members(cls: type, kind: type, space: dict[str, Any]) -> None:
    names = (f"{kind.__name__}.{name}" for name in space)
    warn_of_use(names, f"class {cls.__module__}.{cls.__qualname__}")


def _give(subclass: type, kind: type, name: str) -> bool:
    """Give a class a member's default; return whether there is one and the class takes it."""
    value = _defined(kind)[name]
    if getattr(value, "__isabstractmethod__", False):
        return False
    try:
        setattr(subclass, name, value)
    except (AttributeError, TypeError):
        return False
    return True


def members(kind: type) -> dict[str, bool]:
    """Return the members of a class of the contract: of each, whether a subclass must define it."""
    return {
        name: bool(getattr(value, "__isabstractmethod__", False))
        for name, value in _defined(kind).items()
        if _is_member(name, value)
    }


def _defined(kind: type) -> dict[str, object]:
    """Return what a class and its bases define, each name as the class itself sees it."""
    bases = (base for base in reversed(kind.__mro__) if base is not object)
    return {name: value for base in bases for name, value in vars(base).items()}


def _is_member(name: str, value: object) -> bool:
    if name in _DUNDERS:
        return True
    return not name.startswith("__") and (callable(value) or isinstance(value, property))


def lacking(cls: type, kind: type) -> tuple[str, ...]:
    """Return the members of ``kind`` that a class does not have, sorted.

    A class that derives from ``kind`` lacks those that are still abstract.
    """
    if kind in cls.__mro__:
        return tuple(sorted(getattr(cls, "__abstractmethods__", ())))
    # Not `hasattr`: a class has what its metaclass has, `__call__` for one.
    return tuple(sorted(name for name in members(kind) if not _has(cls, name)))


def _has(cls: type, name: str) -> bool:
    return any(name in vars(base) for base in cls.__mro__)
