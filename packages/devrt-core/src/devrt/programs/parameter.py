"""One parameter of a program: what is passed for it is checked, converted and placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt.arrays import Array, device_put
from devrt.arrays.guards import Config, Direction, check_transfer
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs.host_values import as_argument
from devrt.tracing import at_user_line
from devrt.tracing.ir import Value

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract import Buffer, Device
    from devrt.layout import Format, PjRtLayout
    from devrt.sharding import Sharding

__all__ = ["Parameter", "formats_of", "moved_for", "order_of"]

_LONGEST = 40  # characters of a value in a message
_NO_NUMBERS = "OSUMm"  # kinds of NumPy's dtypes that no device has


def order_of(wanted: Sequence[Device], there: Sequence[Device]) -> list[int] | None:
    """Return where each wanted device stands among some; None if they are in one order."""
    order = [there.index(device) for device in wanted]
    return None if order == list(range(len(there))) else order


def formats_of(layouts: Sequence[PjRtLayout], shardings: Sequence[Sharding]) -> tuple[Format, ...]:
    """Return the layout and the sharding of each array that a program takes or gives."""
    from devrt.layout import Format  # seldom requested, and start-up counts

    pairs = zip(layouts, shardings, strict=True)
    return tuple(Format(layout._xla_layout(), sharding) for layout, sharding in pairs)


def moved_for(operation: str, argument: Any, target: Any) -> Array:
    """Return an argument on its target: a transfer that nobody requested by name."""
    if Config.guards_are_set:
        is_array = isinstance(argument, Array)
        direction: Direction = "device_to_device" if is_array else "host_to_device"
        check_transfer(direction, operation, argument, target, is_explicit=False)
    moved: Array = device_put(argument, target)
    return moved


class Parameter:
    """A parameter of a program.

    Parameters
    ----------
    program
        The program's name, for errors.
    name
        What errors call the argument.
    shape, dtype
        What the whole array must be.
    sharding
        How the program takes it.
    devices
        The program's devices, in its order.

    Attributes
    ----------
    order : list of int or None
        Where the buffer of each of the program's devices stands in an array; None for the same.
    """

    def __init__(
        self,
        program: str,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        sharding: Sharding,
        devices: Sequence[Device],
    ) -> None:
        self._program = program
        self._name = name
        self._shape = shape
        self._dtype = dtype
        self._sharding = sharding
        self._target: Sharding | Format = sharding
        self._known: Sharding | None = sharding  # the one that meant the same last
        self.order = order_of(devices, list(sharding.device_list.addressable_device_list))

    def put_on(self, target: Format) -> None:
        """Put values of the host in this layout from now on."""
        self._target = target

    def shards(self, argument: Any) -> Sequence[Buffer]:
        """Return an argument's buffer for each device of the program.

        Raises
        ------
        InvalidArgumentError
            If shape, dtype or placement does not fit, or the dtype cannot hold the value.
        """
        buffers = self.placed(argument)._buffers
        return buffers if self.order is None else [buffers[position] for position in self.order]

    def placed(self, argument: Any) -> Array:
        """Return an argument as an array that lies as the program takes it; see `shards`."""
        if type(argument) is not Array:
            return self._put(argument)
        self._check(argument)
        sharding = argument.sharding
        if sharding is self._sharding or sharding is self._known:
            return argument
        if self._sharding == sharding:
            argument._sharding = self._sharding  # calls compare objects
            return argument
        if self._sharding.is_equivalent_to(sharding, argument.ndim):
            self._known = sharding
            return argument
        if argument.committed:
            is_one = len(argument.devices()) == 1 == len(self._sharding.device_list)
            load = ", or load the program there: load_program(..., devices=[...])" * is_one
            raise self._error(
                f"lies as {sharding}, and must lie as {self._sharding}. Move it with device_put"
                f"{load}"
            )
        return self.moved(argument, self._sharding)

    def moved(self, argument: Any, target: Any) -> Array:
        """Return an argument where the program takes it."""
        return moved_for(f"calling '{self._program}'", argument, target)

    def _put(self, value: Any) -> Array:
        if isinstance(value, Value):
            msg = (
                f"program '{self._program}' cannot be called in a traced function"
                f"{at_user_line()}: argument {self._name} is a traced value of {value.aval}, and "
                "a loaded program runs on elements. Call it outside of jit, grad, shard_map, scan "
                "and their like, between functions that those trace."
            )
            raise UnimplementedError(msg, operation="execute")
        try:
            host = as_argument(value, self._dtype)
        except DevrtError as error:
            msg = f"argument {self._name} of program '{self._program}': {error.message}"
            raise InvalidTypeError(msg, operation="execute") from error
        except RuntimeError as error:  # as other libraries say of what is deleted, or elsewhere
            raise self._error(
                f"cannot be read, as {type(value).__module__} says: {error} Pass what "
                "numpy.asarray makes of a value that this process holds"
            ) from error
        if host is None:
            raise self._error(
                f"is {_shown(value)}, and {self._dtype} does not hold that. "
                "Give what it holds, or convert it yourself: numpy.asarray(x).astype(...)"
            )
        if host.dtype.kind in _NO_NUMBERS:
            raise self._error(f"is {_shown(value)}, and must be {self._dtype}{list(self._shape)}")
        self._check(host)
        return self.moved(host, self._target)

    def _check(self, array: Any) -> None:
        if tuple(array.shape) != self._shape or array.dtype != self._dtype:
            raise self._error(
                f"is {array.dtype}{list(array.shape)} and must be {self._dtype}{list(self._shape)}",
                shape=tuple(array.shape),
            )

    def _error(self, problem: str, **facts: Any) -> InvalidArgumentError:
        msg = f"argument {self._name} of program '{self._program}' {problem}."
        return InvalidArgumentError(msg, operation="execute", **facts)


def _shown(value: object) -> str:
    text = repr(value)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{text} of type {type(value).__name__}"
