"""The arguments of a traced function's call: static ones, and the leaves of all others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from devrt._pytree import array_trees
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import at_user_line

__all__ = [
    "Arguments",
    "Call",
    "check_callable",
    "name_at",
    "name_of",
    "names_and_numbers",
    "parameters_of",
]

Static = tuple[Any, Any]  # the position or name of an argument, and its value
_BOTH = inspect.Parameter.POSITIONAL_OR_KEYWORD
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, _BOTH)


class Call(NamedTuple):
    """A call, taken apart.

    Attributes
    ----------
    leaves : list
        The leaves of the arguments that are not static.
    tree : PyTreeDef
        Their structure, as (positional arguments, those by name).
    statics : tuple
        The static arguments: position or name, and value.
    kinds : tuple
        The type of each static value: equal numbers of two types are not one program.
    """

    leaves: list[Any]
    tree: Any
    statics: tuple[Static, ...] = ()
    kinds: tuple[type, ...] = ()


class Arguments:
    """Which arguments of a function are static, and which are donated.

    Raises
    ------
    InvalidArgumentError
        If the function takes no such argument, or one is to be both.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: Any,
        static_argnames: Any,
        donate_argnums: Any,
        donate_argnames: Any,
    ) -> None:
        self.function = function
        self._parameters = parameters_of(function)
        infer = self._inferred
        self.static_nums, self.static_names = infer("static", static_argnums, static_argnames)
        self.donate_nums, self.donate_names = infer("donate", donate_argnums, donate_argnames)
        both = {*self.static_nums, *self.static_names} & {*self.donate_nums, *self.donate_names}
        if both:
            msg = (
                f"{self.name} takes {_listed(both)} as static and as donated. A static argument "
                "has no memory to give: name it once."
            )
            raise InvalidArgumentError(msg, operation="jit")
        self._has_statics = bool(self.static_nums or self.static_names)
        self.donates = bool(self.donate_nums or self.donate_names)

    @property
    def name(self) -> str:
        """The function's name."""
        return name_of(self.function)

    def taken_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return the leaves and the static values of a call."""
        if not self._has_statics:
            return Call(*array_trees.tree_flatten((args, kwargs)))
        nums = _from_the_start(self.static_nums, len(args))
        statics: list[Static] = [(i, args[i]) for i in sorted(nums) if i < len(args)]
        dynamic = tuple(x for i, x in enumerate(args) if i not in nums)
        names = self.static_names
        if names:
            statics += [(name, kwargs[name]) for name in sorted(names & kwargs.keys())]
            kwargs = {name: x for name, x in kwargs.items() if name not in names}
        leaves, tree = array_trees.tree_flatten((dynamic, kwargs))
        return Call(leaves, tree, tuple(statics), tuple(type(x) for _, x in statics))

    def put_together(
        self, leaves: Sequence[Any], tree: Any, statics: tuple[Static, ...]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return what `taken_apart` took apart, with other leaves."""
        dynamic, kwargs = tree.unflatten(leaves)
        args = list(dynamic)
        for place, value in statics:
            if isinstance(place, str):
                kwargs[place] = value
            else:
                args.insert(place, value)
        return args, kwargs

    def refuse_unhashable(self, statics: tuple[Static, ...], error: TypeError) -> None:
        """Raise the error for the first static value without a hash; nothing if all have one."""
        for place, value in statics:
            try:
                hash(value)
            except TypeError:
                msg = (
                    f"the static argument {self._named(place)} of {self.name} is {value!r:.80} of "
                    f"type {type(value).__name__}, which cannot be hashed{at_user_line()}: static "
                    "values decide which program runs. Pass a tuple in place of a list, or do not "
                    "make the argument static."
                )
                raise InvalidTypeError(msg, argument=self._named(place)) from None

    def paths(self, tree: Any, statics: tuple[Static, ...]) -> list[str]:
        """Return what errors call each leaf: ``x``, ``params['w']``, ``args[2]``."""
        fixed = {place for place, _ in statics}
        marked = tree.unflatten(range(tree.num_leaves))
        pairs, _ = array_trees.tree_flatten_with_path(marked)
        count = max((path[1].idx for path, _ in pairs if path[0].idx == 0), default=-1) + 1
        places = [i for i in range(count + len(fixed)) if i not in fixed]
        found = []
        for path, _ in pairs:
            top = places[path[1].idx] if path[0].idx == 0 else path[1].key
            found.append(self._named(top) + array_trees.keystr(path[2:]))
        return found

    def donated(self, tree: Any, statics: tuple[Static, ...]) -> list[bool]:
        """Return for each leaf whether its memory is given to the program."""
        fixed = {place for place, _ in statics}
        by_position, by_name = tree.children()
        count = len(by_position.children())
        nums = _from_the_start(self.donate_nums, count + len(fixed))
        places = [i for i in range(count + len(fixed)) if i not in fixed][:count]
        flags: list[bool] = []
        for place, child in zip(places, by_position.children(), strict=True):
            flags += [place in nums] * child.num_leaves
        names = sorted(by_name.unflatten(range(by_name.num_leaves)))
        for name, child in zip(names, by_name.children(), strict=True):
            flags += [name in self.donate_names] * child.num_leaves
        return flags

    def _named(self, place: Any) -> str:
        if isinstance(place, str):
            return place
        return name_at(self._parameters, place)

    def _inferred(self, verb: str, nums: Any, names: Any) -> tuple[frozenset[int], frozenset[str]]:
        found = names_and_numbers(self._parameters, nums, names)
        positional = [p for p in self._parameters.values() if p.kind in _BY_POSITION]
        kinds = {p.kind for p in self._parameters.values()}
        many, count = inspect.Parameter.VAR_POSITIONAL in kinds, len(positional)
        wrong: list[Any] = []
        if self._parameters and not many:
            wrong = [n for n in found[0] if not -count <= n < count]
        if self._parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            wrong += sorted(found[1] - self._parameters.keys())
        if wrong:
            takes = ", ".join(self._parameters) or "no arguments"
            msg = (
                f"{verb}_argnums or {verb}_argnames name {_listed(wrong)}, and {self.name} takes "
                f"{takes}. Numbers count the positional arguments from 0."
            )
            raise InvalidArgumentError(msg, operation="jit")
        if not many:
            found = frozenset(n % count if n < 0 else n for n in found[0]), found[1]
        return found


def names_and_numbers(
    parameters: Mapping[str, inspect.Parameter], nums: Any, names: Any
) -> tuple[frozenset[int], frozenset[str]]:
    """Return argument numbers and names; where one of them is not given, by the other."""
    given_nums = frozenset((nums,) if isinstance(nums, int) else nums or ())
    given_names = frozenset((names,) if isinstance(names, str) else names or ())
    for n in given_nums:
        if not isinstance(n, int):
            msg = f"argument numbers are integers, and {n!r} is of type {type(n).__name__}."
            raise InvalidTypeError(msg, operation="jit")
    for name in given_names:
        if not isinstance(name, str):
            msg = f"argument names are strings, and {name!r} is of type {type(name).__name__}."
            raise InvalidTypeError(msg, operation="jit")
    order = list(parameters.values())
    if nums is not None and names is None:
        found = [order[n] for n in given_nums if -len(order) <= n < len(order)]
        given_names = frozenset(p.name for p in found if p.kind is _BOTH)
    elif names is not None and nums is None:
        pairs = enumerate(order)
        given_nums = frozenset(i for i, p in pairs if p.name in given_names and p.kind is _BOTH)
    return given_nums, given_names


def name_of(function: Callable[..., Any]) -> str:
    """Return what errors call a function: its name, or that of its class."""
    return getattr(function, "__name__", None) or type(function).__name__


def name_at(parameters: Mapping[str, inspect.Parameter], place: int) -> str:
    """Return what errors call a positional argument: ``x``, ``args[2]``."""
    kinds = list(parameters.values())
    is_named = place < len(kinds) and kinds[place].kind in _BY_POSITION
    return kinds[place].name if is_named else f"args[{place}]"


def check_callable(what: str, *functions: Any) -> None:
    """Raise `InvalidTypeError` if one of what is given as functions is none."""
    for each in functions:
        if not callable(each):
            msg = f"{what} takes a function, not {each!r:.80} of type {type(each).__name__}."
            raise InvalidTypeError(msg, operation=what)


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function, by name; none where Python does not know them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C have none
        return {}


def _from_the_start(nums: frozenset[int], count: int) -> frozenset[int]:
    return frozenset(n + count if n < 0 else n for n in nums)


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(sorted(map(repr, items)))
