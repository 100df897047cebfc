"""Frozen records: what ``dataclasses.dataclass(frozen=True, slots=True)`` makes, made faster.

A data class is compiled when it is defined, about half a millisecond each, and its module brings
in ``inspect``: together a third of the time that a first ``devrt.devices()`` took. A record has
the same constructor, equality, order, hash, text and pickling without a compiler. To type checkers
it is a data class, and so it is to the functions of ``dataclasses``, which are given its fields
when they ask for them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from dataclasses import dataclass as record
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = ["UnknownFieldError", "fields", "record", "replaced"]


class UnknownFieldError(TypeError):
    """A record was given a field that it does not have.

    Attributes
    ----------
    api_version : object
        What it was given as ``api_version``; None if nothing.
    """

    def __init__(self, message: str, api_version: object = None) -> None:
        super().__init__(message)
        self.api_version = api_version


def fields(kind: type[Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield of each field its name, its type as it is written, and whether it may be left out."""
    for name in kind.__match_args__:
        yield name, str(kind.__annotations__[name]), name in kind.__record_defaults__


def replaced(value: T, **changes: Any) -> T:
    """Return a copy of a record with some fields changed."""
    kind: Any = type(value)
    copied: T = kind(**{name: getattr(value, name) for name in kind.__match_args__} | changes)
    return copied


def _define(*, frozen: bool, slots: bool, order: bool = False, kw_only: bool = False) -> Any:
    """Return a decorator that makes a record of a class with annotations."""
    assert frozen and slots  # noqa: PT018  the only kind there is

    def decorate(cls: type[Any]) -> type[Any]:
        names = tuple(cls.__annotations__)
        space = dict(cls.__dict__)
        defaults = {name: space.pop(name) for name in names if name in space}
        for name in ("__dict__", "__weakref__"):
            space.pop(name, None)
        space |= _METHODS | (_ORDER if order else {})
        space |= {"__slots__": names, "__match_args__": names}
        space |= {"__record_defaults__": defaults, "__record_by_name__": kw_only}
        made = type(cls.__name__, cls.__bases__, space)
        setattr(made, "__init__", _constructor(made, names, defaults, kw_only))  # noqa: B010
        return made

    return decorate


def _constructor(
    made: Any, names: tuple[str, ...], defaults: dict[str, Any], kw_only: bool
) -> Callable[..., None]:
    setters = [(name, made.__dict__[name].__set__) for name in names]
    positional = 0 if kw_only else len(names)

    def __init__(self: Any, *values: Any, **given: Any) -> None:  # noqa: N807
        if len(values) > positional:
            msg = f"{made.__name__} takes {positional} positional values, not {len(values)}"
            raise TypeError(msg)
        for name, value in zip(names, values, strict=False):
            if name in given:
                raise TypeError(f"{made.__name__} got {name!r} twice")
            given[name] = value
        found = defaults | given
        for name, set_field in setters:
            if name not in found:
                wrong = _names(found.keys() - set(names))
                if wrong:
                    text = f"{made.__name__} needs {name!r}, and has no field {wrong}"
                    raise UnknownFieldError(text, found.get("api_version"))
                raise TypeError(f"{made.__name__} needs {name!r}")
            set_field(self, found[name])
        if len(found) > len(setters):
            wrong = f"{made.__name__} has no field {_names(found.keys() - set(names))}"
            raise UnknownFieldError(wrong, found.get("api_version"))

    return __init__


def _names(names: set[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__match_args__])


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return compare(_values(self), _values(other))

    return method


def _show(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field {name!r}: records are frozen")


def _restored(kind: type[Any], values: tuple[Any, ...]) -> Any:
    return kind(**dict(zip(kind.__match_args__, values, strict=True)))


class _AsDataClass:
    """What ``dataclasses`` and ``inspect`` look for, made when they first do."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, _: Any, kind: Any) -> Any:
        import dataclasses
        import inspect

        specs = [
            (name, kind.__annotations__[name], dataclasses.field(**_given(kind, name)))
            for name in kind.__match_args__
        ]
        twin: Any = dataclasses.make_dataclass(
            kind.__name__, specs, kw_only=kind.__record_by_name__
        )
        setattr(kind, "__dataclass_fields__", twin.__dataclass_fields__)  # noqa: B010
        setattr(kind, "__signature__", inspect.signature(twin))  # noqa: B010
        return getattr(kind, self._name)


def _given(kind: Any, name: str) -> dict[str, Any]:
    if name not in kind.__record_defaults__:
        return {}
    value = kind.__record_defaults__[name]
    is_plain = type(value).__hash__ is not None  # as dataclasses tell what may be a default
    return {"default": value} if is_plain else {"default_factory": lambda: value}


_METHODS: dict[str, Any] = {
    "__eq__": _compared(lambda left, right: left == right),
    "__hash__": lambda self: hash(_values(self)),
    "__repr__": _show,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__reduce__": lambda self: (_restored, (type(self), _values(self))),
    "__replace__": replaced,
    "__dataclass_fields__": _AsDataClass("__dataclass_fields__"),
    "__signature__": _AsDataClass("__signature__"),
}
_ORDER: dict[str, Any] = {
    "__lt__": _compared(lambda left, right: left < right),
    "__le__": _compared(lambda left, right: left <= right),
    "__gt__": _compared(lambda left, right: left > right),
    "__ge__": _compared(lambda left, right: left >= right),
}
if not TYPE_CHECKING:
    record = _define
