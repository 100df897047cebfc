"""What an exporter says of a function beside its program."""

from __future__ import annotations

import dataclasses

from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.programs.trees import OpaqueTree, Tree

__all__ = ["Exported", "argument_at"]

_OTHER_CLIENT = "give a client of {0}: client=devrt.get_backend('{0}')"

_CONVENTIONS = (9, 10)  # of jax.export, from 0.4.30 on


@dataclasses.dataclass(frozen=True, slots=True)
class Exported:
    """A function that was exported, or lowered, with the trees that it takes and gives.

    Attributes
    ----------
    name : str
        The function's name.
    code : bytes or str
        Its program.
    in_tree : Tree or OpaqueTree
        Of the positional arguments, as a tuple, and those by name, as a dict.
    out_tree : Tree or OpaqueTree
        Of the result.
    shapes : tuple of tuple of int or str
        The shape of each leaf of the arguments; a dimension that is not fixed is its name.
    kept : tuple of int
        Which leaves of the arguments the program takes; the others are not used in it.
    first : tuple
        Values that the program takes before those, such as weights.
    platforms : tuple of str
        Where it may run; empty where that is not known.
    is_for_any_platform : bool
        Whether the exporter waived that.
    convention : int
        The version of the convention by which the program is called; 0 where there is none.
    ordered_effects : tuple of str
        Effects whose order tokens keep, which are arguments.
    """

    name: str
    code: bytes | str
    in_tree: Tree | OpaqueTree
    out_tree: Tree | OpaqueTree
    shapes: tuple[tuple[int | str, ...], ...]
    kept: tuple[int, ...]
    first: tuple[object, ...] = ()
    platforms: tuple[str, ...] = ()
    is_for_any_platform: bool = False
    convention: int = 0
    ordered_effects: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what cannot be called here, whatever the platform.

        Raises
        ------
        UnimplementedError
            If it was exported by another calling convention, or takes tokens.
        InvalidArgumentError
            If a dimension is symbolic, or its parts do not go together.
        """
        low, high = _CONVENTIONS
        if self.convention and not low <= self.convention <= high:
            raise self._unimplemented(
                f"was exported with calling convention {self.convention} of jax.export, and devrt "
                f"knows {low} to {high}. Export it with another version of jax, or with the option "
                f"jax_export_calling_convention_version={high}."
            )
        if self.ordered_effects:
            raise self._unimplemented(
                f"has ordered effects ({', '.join(self.ordered_effects)}), whose tokens no buffer "
                "holds. Export it without them."
            )
        self._check_leaves()

    def _check_leaves(self) -> None:
        count, node = self.in_tree.num_leaves, self.in_tree.node
        is_call = node is None or [child.kind for child in node.children] == [tuple, dict]
        if not is_call or len(self.shapes) != count or any(not 0 <= i < count for i in self.kept):
            raise self._invalid("does not describe each of its arguments. Export it again.")
        for i, shape in enumerate(self.shapes):
            if any(isinstance(size, str) for size in shape):
                sizes = ", ".join(map(str, shape))
                raise self._invalid(
                    f"takes argument {self.names()[i]} of the symbolic shape ({sizes}), and "
                    "compilers take fixed ones. Export it for the sizes that it runs with, once "
                    "for each: with numbers in place of jax.export.symbolic_shape, or of a "
                    "dynamic dimension of torch.export."
                )

    def platform_number(self, platform: str, instead: str = _OTHER_CLIENT) -> int | None:
        """Return the number of a platform, if that is the program's first argument; else None.

        Parameters
        ----------
        platform
            The platform.
        instead
            What to give for the platform ``{0}``, which it was exported for.

        Raises
        ------
        InvalidArgumentError
            If the program was not exported for it.
        """
        if platform not in self.platforms:
            if not self.platforms or (self.is_for_any_platform and len(self.platforms) == 1):
                return None
            names = " and ".join(self.platforms)
            raise self._invalid(
                f"was exported for {names}, and this client is of the platform {platform}. Export "
                f"it with platforms=['{platform}'], or {instead.format(self.platforms[0])}."
            )
        return self.platforms.index(platform) if len(self.platforms) > 1 else None

    def names(self) -> list[str]:
        """Return what errors call the leaves of the arguments: ``0``, ``0['w1']``, ``scale``."""
        if self.in_tree.node is None:
            return list(map(str, range(self.in_tree.num_leaves)))
        return list(map(argument_at, self.in_tree.node.paths()))

    def _invalid(self, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"function '{self.name}' {why}", operation="load_program")

    def _unimplemented(self, why: str) -> UnimplementedError:
        return UnimplementedError(f"function '{self.name}' {why}", operation="load_program")


def argument_at(path: str) -> str:
    """Return what errors call the argument at a path in a tree of arguments.

    The path ``[0][2]['w1']`` leads to the third positional one, ``[1]['scale']`` to one by name.
    """
    first, _, rest = path[len("[0][") :].partition("]")
    return (first if path.startswith("[0]") else first[1:-1]) + rest
