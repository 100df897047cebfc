"""How a program is called: from what a user passes to its parameters, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.programs.exported import Exported, argument_at
from devrt.programs.trees import MismatchError, Node

__all__ = ["Signature"]


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """How the arguments of a call become a program's, and its results the call's.

    Attributes
    ----------
    name : str
        What errors call the program.
    exported : Exported or None
        The trees of arguments and results; None for a program that takes and gives arrays.
    """

    name: str
    exported: Exported | None = None

    @property
    def is_flat(self) -> bool:
        """Whether what is passed by position is what the program takes."""
        if self.exported is None:
            return True
        node = self.exported.in_tree.node
        if node is None or len(self.exported.kept) < self.exported.in_tree.num_leaves:
            return False
        arguments, named = node.children
        return not named.children and all(child.kind is None for child in arguments.children)

    @property
    def gives_one(self) -> bool:
        """Whether a result is an array itself, not a tree of some."""
        node = None if self.exported is None else self.exported.out_tree.node
        return node is not None and node.kind is None

    def leaves(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Sequence[Any]:
        """Return what the program takes of the arguments of a call.

        Raises
        ------
        InvalidArgumentError
            If they are not the tree that the program was exported with; names the path.
        """
        if self.exported is None:
            if named:
                names = ", ".join(map(repr, named))
                raise self._error(
                    f"takes its arguments by position, and {names} {_were(len(named))} given by "
                    "name"
                )
            return arguments
        self._check_counts(arguments, named)
        try:
            found = self.exported.in_tree.flatten((arguments, named))
        except MismatchError as error:
            where = "its arguments" if not error.path else f"argument {argument_at(error.path)}"
            raise self._error(f"does not take this: {where} {error.problem}") from None
        kept = self.exported.kept
        return found if len(kept) == len(found) else [found[number] for number in kept]

    def result(self, results: list[Any]) -> Any:
        """Return what a call returns for the program's results."""
        return results if self.exported is None else self.exported.out_tree.unflatten(results)

    def names(self, count: int) -> tuple[str, ...]:
        """Return what errors call the arguments of a program that takes so many.

        Raises
        ------
        InvalidArgumentError
            If the exporter describes another number.
        """
        if self.exported is None:
            return tuple(map(str, range(count)))
        kept = self.exported.kept
        if len(kept) != count:
            raise self._error(f"takes {count} arguments, and its export describes {len(kept)}")
        names = self.exported.names()
        return tuple(names[number] for number in kept)

    def wrong_count(self, count: int, given: int) -> InvalidArgumentError:
        """Return the error for another number of arguments than the program takes."""
        return self._error(f"takes {_counted(count)}, and {given} {_were(given)} given")

    def _check_counts(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Say in the words of a call what is missing of one, or too much."""
        assert self.exported is not None
        node = self.exported.in_tree.node
        if node is None:
            return
        by_position, by_name = node.children
        count, given = len(by_position.children), len(arguments)
        if given != count and (named or by_name.keys):
            raise self._error(
                f"takes {_counted(count)} by position, and {given} {_were(given)} given so; "
                f"by name it takes {_list(by_name)}"
            )
        if given != count:
            raise self.wrong_count(count, given)
        if set(named) != set(by_name.keys):
            raise self._error(
                f"takes by name {_list(by_name)}, and {', '.join(map(repr, named)) or 'nothing'} "
                f"{_were(len(named) or 1)} given by name{_missing(by_name, named)}"
            )

    def _error(self, problem: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"program '{self.name}' {problem}.", operation="execute")


def _counted(count: int) -> str:
    return f"{count} argument" + ("" if count == 1 else "s")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _missing(node: Node, named: dict[str, Any]) -> str:
    missing = [repr(key) for key in node.keys if key not in named]
    verb = "is" if len(missing) == 1 else "are"
    return f": {', '.join(missing)} {verb} missing" if missing else ""


def _list(node: Node) -> str:
    return ", ".join(map(repr, node.keys)) or "nothing"
