"""What the members of a group of devices, or of processes, do together."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any

from devrt.contract.members import Contract

__all__ = ["REDUCTIONS", "Collectives"]

REDUCTIONS = ("sum", "prod", "max", "min", "avg")
"""How elements of several ranks become one."""


class Collectives(metaclass=Contract):
    """A group of ranks, which exchange arrays.

    Every rank gives an array, all of one shape and dtype, and every rank gets one. A call is made
    once in a process, for all of its ranks, with their arrays in the order of the ranks. Processes
    that share a group make the same calls in the same order. What a call returns is ready when the
    rank has ended; if one rank fails, so do the results of all.

    Attributes
    ----------
    size : int
        How many ranks the group has.
    ranks : tuple of int
        Those of this process.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int: ...

    @property
    @abc.abstractmethod
    def ranks(self) -> tuple[int, ...]: ...

    @abc.abstractmethod
    def all_reduce(
        self, values: Sequence[Any], op: str = "sum", *, donate: bool = False
    ) -> list[Any]:
        """Combine the elements of all ranks; every rank gets the result.

        Parameters
        ----------
        values
            The array of each rank of this process.
        op
            One of `REDUCTIONS`. The average of integers rounds towards zero.
        donate
            Give the arrays up: the results take their memory where nothing else uses it.

        Returns
        -------
        list
            The result of each rank of this process, as in all members.

        Raises
        ------
        InvalidArgumentError
            If the arrays are not alike, do not lie where their ranks are, or have a dtype that
            cannot be combined so.
        """

    @abc.abstractmethod
    def all_gather(self, values: Sequence[Any], *, tiled: bool = False) -> list[Any]:
        """Give every rank the arrays of all, in the order of the ranks.

        Parameters
        ----------
        values
            The array of each rank of this process.
        tiled
            Whether they follow one another along the first axis. Else there is a new one.
        """

    @abc.abstractmethod
    def reduce_scatter(
        self, values: Sequence[Any], op: str = "sum", *, tiled: bool = False
    ) -> list[Any]:
        """Combine the elements of all ranks; each rank gets its part of the result.

        Parameters
        ----------
        values
            The array of each rank of this process. The first axis has as many elements as the group
            has ranks; if ``tiled``, a multiple.
        op
            As for `all_reduce`.
        tiled
            Whether the parts keep the first axis.
        """

    @abc.abstractmethod
    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """Give each rank its part of every rank's array, in the order of the ranks.

        Parameters
        ----------
        values
            The array of each rank of this process. The length of the first axis is a multiple of
            the number of ranks.
        """

    @abc.abstractmethod
    def broadcast(self, values: Sequence[Any], root: int = 0) -> list[Any]:
        """Give every rank the array of one.

        Parameters
        ----------
        values
            The array of each rank of this process; None will do for those that are not ``root``,
            if the array of ``root`` is given.
        root
            The rank whose array it is.
        """

    @abc.abstractmethod
    def permute(self, values: Sequence[Any], pairs: Iterable[tuple[int, int]]) -> list[Any]:
        """Send the arrays of some ranks to others; a rank that receives none gets zeros.

        Parameters
        ----------
        values
            The array of each rank of this process.
        pairs
            Which rank sends and which receives. A rank sends once at most, and receives once.
        """

    @abc.abstractmethod
    def barrier(self) -> None:
        """Wait until every rank has come here, and has ended the collectives before."""
