"""Programs on devices: from the leaves of a call to the arrays that it gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from devrt.arrays import Array, device_put
from devrt.arrays.dispatch_key import DispatchKey, key_with
from devrt.errors import DeletedError, InvalidArgumentError
from devrt.layout import Format
from devrt.programs.leaves import Kind
from devrt.programs.parameter import Parameter, order_of
from devrt.runtime.plugin_errors import check_count, raise_named
from devrt.tracing import at_user_line

if TYPE_CHECKING:
    from devrt.contract import Buffer, LoadedExecutable
    from devrt.programs.placement import Placement
    from devrt.programs.traced import Trace
    from devrt.sharding import Sharding
    from devrt.tracing import ShapedArray

__all__ = ["Launch"]


class Launch:
    """A compiled program, and what its calls look at.

    Parameters
    ----------
    executable
        The program.
    trace
        What it was compiled of.
    kinds
        What it was compiled for: arguments of these kinds are not looked at again.
    placement
        Where it runs.
    hidden
        How it takes each array that the function closes over.
    arguments, results
        How it takes and gives each leaf.

    Attributes
    ----------
    devices : tuple of Device
        The program's, in its order.
    takes : sequence of Sharding
        How it takes each leaf, in the memory that programs take.
    """

    def __init__(
        self,
        executable: LoadedExecutable,
        trace: Trace,
        kinds: Sequence[Kind],
        placement: Placement,
        hidden: Sequence[Sharding],
        arguments: Sequence[Sharding],
        results: Sequence[Sharding],
    ) -> None:
        self.executable = executable
        self.arguments = tuple(arguments)
        self.results = tuple(results)
        self._trace = trace
        self.devices = placement.local_devices
        self._donates = any(trace.donated)
        taken = [_by_default(sharding) for sharding in (*hidden, *arguments)]
        closed_over = [value.aval for _, value in trace.graph.hidden.values()]
        names = [*(f"closed over ({i})" for i in range(len(hidden))), *trace.paths]
        parameters = [
            Parameter(trace.name, name, aval.shape, aval.dtype, sharding, self.devices)
            for name, aval, sharding in zip(names, (*closed_over, *trace.avals), taken, strict=True)
        ]
        self._parameters = parameters[len(hidden) :]
        self._hidden = [
            list(parameter.shards(device_put(array, sharding)))
            for parameter, array, sharding in zip(parameters, trace.hidden, taken, strict=False)
        ]
        self._moves = [
            sharding if _is_elsewhere(kind, sharding) else None
            for kind, sharding in zip(kinds, taken[len(hidden) :], strict=True)
        ]
        self._are_there = not any(self._moves) and all(
            isinstance(kind, DispatchKey) for kind in kinds
        )
        self._set_outputs(trace, placement, taken[len(hidden) :])

    def _set_outputs(self, trace: Trace, placement: Placement, takes: Sequence[Sharding]) -> None:
        """Set what is made of the program's results."""
        is_single = len(placement.devices) == 1
        given = [_by_default(sharding) for sharding in self.results]
        self._is_committed = placement.committed
        self._gives = [
            (
                sharding,
                None if is_single else aval.shape,
                key_with(aval, sharding, placement.committed),
            )
            for aval, sharding in zip(trace.out_avals, given, strict=True)
        ]
        self._orders = [
            order_of(list(s.device_list.addressable_device_list), self.devices) for s in given
        ]
        self._elsewhere: list[tuple[int, Sharding | Format]] = [
            (i, wanted)
            for i, (wanted, sharding) in enumerate(zip(self.results, given, strict=True))
            if wanted.memory_kind != sharding.memory_kind
        ]
        self._elsewhere += [(i, each) for i, each in enumerate(placement.formats) if each]
        orders = [*self._orders, *(parameter.order for parameter in self._parameters)]
        self.takes = takes
        self._is_in_order = all(order is None for order in orders)
        self._caller = self.caller(gives_one=False)

    def caller(self, *, gives_one: bool) -> Callable[[Sequence[Any]], Any] | None:
        """Return the executable's own way to call it with arrays, if it has one for these.

        ``gives_one`` is whether it gives the array of an only result itself.
        """
        if not self._is_in_order:
            return None
        call = self.executable.array_caller
        return call(Array, self.takes, self._hidden, self._gives, self._is_committed, gives_one)

    def __call__(self, leaves: Sequence[Any]) -> list[Array]:
        """Start the program with leaves of the kinds that it was compiled for."""
        return self._run(leaves, leaves if self._are_there else self._placed(leaves))

    def checked(self, leaves: Sequence[Any]) -> list[Array]:
        """Start the program with any leaves, which are checked and placed first."""
        return self._run(leaves, self._placed(leaves))

    def _run(self, leaves: Sequence[Any], arrays: Sequence[Any]) -> list[Array]:
        if self._donates:
            self._check_donated(leaves)
        try:
            made = self._caller(arrays) if self._caller is not None else None
            done = self._finished(self._executed(arrays) if made is None else made)
        except Exception as error:  # noqa: BLE001  plugin code
            self.raise_explained(leaves, error)
        if self._donates and arrays is not leaves:
            self._delete_sources(leaves, arrays)
        return done

    def _delete_sources(self, leaves: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Delete donated arrays whose copies, placed for the program, were the ones consumed."""
        for leaf, array, is_donated in zip(leaves, arrays, self._trace.donated, strict=True):
            if is_donated and type(leaf) is Array and array.is_deleted():
                leaf.delete()

    def raise_explained(self, leaves: Sequence[Any], error: Exception) -> NoReturn:
        """Raise the error of a call, with the argument that it is about where that is known."""
        if self._donates:
            self._check_donated(leaves)
        if isinstance(error, DeletedError):
            raise self._named(leaves, error) from None
        raise_named(error, self.executable.client, "execute")

    @property
    def is_direct(self) -> bool:
        """Whether its `caller` does all that a call with arrays and numbers needs."""
        return self._caller is not None and not any(self._moves) and not self._elsewhere

    def _placed(self, leaves: Sequence[Any]) -> list[Array]:
        """Return the leaves as arrays that lie where the program takes them."""
        return [
            parameter.placed(_number(leaf, aval) if move is None else parameter.moved(leaf, move))
            for parameter, leaf, move, aval in zip(
                self._parameters, leaves, self._moves, self._trace.avals, strict=True
            )
        ]

    def _executed(self, arrays: Sequence[Array]) -> list[Array]:
        """Run the program on all its devices; once more where an array has another layout."""
        try:
            return self._execute(arrays)
        except InvalidArgumentError:
            laid_out = self._laid_out(arrays)
            if all(a is b for a, b in zip(laid_out, arrays, strict=True)):
                raise
            return self._execute(laid_out)

    def _laid_out(self, arrays: Sequence[Array]) -> list[Array]:
        """Return arrays in the layouts that the program takes."""
        layouts = self.executable.get_parameter_layouts()[len(self._hidden) :]
        wanted = [layout._xla_layout() for layout in layouts]
        return [
            array
            if array.format.layout == layout
            else device_put(array, Format(layout, array.sharding))
            for array, layout in zip(arrays, wanted, strict=True)
        ]

    def _execute(self, arrays: Sequence[Array]) -> list[Array]:
        rows: list[Sequence[Buffer]] = [*self._hidden]
        rows += [p.shards(array) for p, array in zip(self._parameters, arrays, strict=True)]
        results = self.executable.execute_sharded(rows)
        check_count(results, len(self._gives), self.executable.client, "execute")
        return self._arrays(results)

    def _arrays(self, results: Sequence[Sequence[Buffer]]) -> list[Array]:
        return [
            self._array(shards if order is None else [shards[i] for i in order], *gives)
            for shards, order, gives in zip(results, self._orders, self._gives, strict=True)
        ]

    def _array(self, shards: Sequence[Buffer], sharding: Sharding, shape: Any, key: Any) -> Array:
        array = Array(shards, sharding, shape, self._is_committed)
        array._key = key
        return array

    def _finished(self, made: list[Array]) -> list[Array]:
        """Place the results that go to another kind of memory, or lie in another layout."""
        for i, target in self._elsewhere:
            made[i] = device_put(made[i], target)
        return made

    def _check_donated(self, leaves: Sequence[Any]) -> None:
        """Refuse an array that is donated and passed once more."""
        seen: dict[int, str] = {}
        for path, leaf, is_donated in zip(
            self._trace.paths, leaves, self._trace.donated, strict=True
        ):
            if type(leaf) is Array:
                first = seen.setdefault(id(leaf), path)
                if first is not path and (is_donated or first in self._donated_paths()):
                    msg = (
                        f"{self._trace.name} takes one array as {first} and as {path}, and its "
                        "memory is donated: pass a copy for one of them, x.copy()."
                    )
                    raise InvalidArgumentError(msg, argument=path)

    def _donated_paths(self) -> set[str]:
        pairs = zip(self._trace.paths, self._trace.donated, strict=True)
        return {path for path, is_donated in pairs if is_donated}

    def _named(self, leaves: Sequence[Any], error: DeletedError) -> DeletedError:
        for path, leaf in zip(self._trace.paths, leaves, strict=True):
            if type(leaf) is Array and leaf.is_deleted():
                msg = (
                    f"argument {path} of {self._trace.name}{at_user_line()} was deleted, or "
                    "donated to a program that took over its memory. Use the result of that "
                    "program, do not donate the argument, or pass a copy."
                )
                return DeletedError(msg, argument=path)
        return error


def _number(leaf: Any, aval: ShapedArray) -> Any:
    """Return a number of Python's as the program takes it: infinite where it is beyond that."""
    if type(leaf) is int or not isinstance(leaf, int | float | complex):
        return leaf
    with np.errstate(over="ignore"):
        return aval.dtype.type(leaf)


def _is_elsewhere(kind: Kind, sharding: Sharding) -> bool:
    """Return whether an array has to be moved first, though it was placed on request."""
    if not isinstance(kind, DispatchKey):
        return False
    there = kind.sharding
    return there != sharding and not there.is_equivalent_to(sharding, kind.aval.ndim)


def _by_default(sharding: Sharding) -> Sharding:
    """Return a sharding onto the devices' default memory, which programs take and give."""
    by_default: Sharding = sharding.with_memory_kind(None)
    return sharding if by_default.memory_kind == sharding.memory_kind else by_default
