"""The user's array: a shape, a dtype, a sharding, and one buffer per addressable device."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt._config.layers import Config
from devrt.arrays.described import Described
from devrt.arrays.dlpack_export import capsule_of
from devrt.arrays.exported import BROKEN_OFF, device_interface, exported, raise_broken_off
from devrt.arrays.missing import NoShards, gone, held_elsewhere
from devrt.arrays.numpy_functions import NumpyFunctions
from devrt.arrays.printed import outline, representation
from devrt.arrays.read_only import host_of
from devrt.contract import Buffer, BufferExporter, Device
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError
from devrt.runtime.plugin_errors import names_plugins, raise_named
from devrt.sharding import Sharding, single_device_sharding
from devrt.tracing.array_like import ArrayType
from devrt.tracing.operators import ArrayOperators

if TYPE_CHECKING:
    import numpy as np

    from devrt.arrays.dispatch_key import DispatchKey
    from devrt.arrays.shard import Shard

__all__ = ["Array"]

_READ_ALL = 0x11C  # inspect.BufferFlags.FULL_RO, which Python 3.11 does not have


class Array(Described, ArrayOperators, NumpyFunctions, BufferExporter, metaclass=ArrayType):
    """An immutable array on the devices of a sharding.

    Made by `devrt.device_put` and the ``make_array_*`` functions, not by its constructor. To
    ``isinstance`` traced values and arrays of keys are such too.

    Parameters
    ----------
    buffers
        One buffer per addressable device, in the order of the sharding's device assignment; a
        `NoShards` where this process addresses none of them.
    sharding
        How ``shape`` maps onto devices; None for the one device of the one buffer.
    shape
        The global shape; None for the shape of the one buffer.
    committed
        Whether the placement was requested, rather than taken by default.
    """

    __slots__ = (
        "__weakref__",
        "_buffers",
        "_committed",
        "_host",
        "_key",
        "_shape",
        "_sharding",
        "_shown",
    )

    def __init__(
        self,
        buffers: Sequence[Buffer],
        sharding: Sharding | None = None,
        shape: tuple[int, ...] | None = None,
        committed: bool = True,
    ) -> None:
        self._buffers = buffers
        self._sharding = sharding
        self._shape = shape
        self._committed = committed
        self._host: np.ndarray[Any, Any] | None = None
        self._shown: memoryview | str | None = None
        self._key: DispatchKey | None = None  # filled when a call looks for it

    # -- what it is ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The global shape."""
        shape = self._shape
        return self._buffers[0].shape if shape is None else shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        buffers = self._buffers
        return buffers[0].dtype if buffers else buffers.dtype  # type: ignore[attr-defined]

    @property
    def sharding(self) -> Sharding:
        """How the global shape maps onto devices."""
        sharding = self._sharding
        if sharding is None:
            buffer = self._buffers[0]
            try:
                device, memory = buffer.device, buffer.memory
            except ClosedError as error:
                raise gone(self, "sharding") from error
            sharding = self._sharding = single_device_sharding(device, memory.kind)
        return sharding

    @property
    def committed(self) -> bool:
        """Whether the placement was requested, rather than taken by default."""
        return self._committed

    @property
    def device(self) -> Device | Sharding:
        """The device of an array that has one; else the sharding."""
        return self._buffers[0].device if len(self._buffers) == 1 else self.sharding

    def devices(self) -> set[Device]:
        """Return every device of the array, those of other processes included."""
        if self._sharding is None:
            return {self._buffers[0].device}
        return set(self._sharding.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process addresses every shard."""
        return self._sharding is None or self._sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self._sharding is None or self._sharding.is_fully_replicated

    @property
    def traceback(self) -> Any:
        """Where the array was made, if its backend records it; else None."""
        return self._buffers[0].traceback if self._buffers else None

    @property
    def _arrays(self) -> list[Buffer]:
        return list(self._buffers)

    # -- its shards ---------------------------------------------------------------------------

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards that this process holds, in the order of the device assignment."""
        from devrt.arrays.shard import addressable_shards

        return addressable_shards(self)

    @property
    def global_shards(self) -> list[Shard]:
        """Every shard; those of other processes have no data."""
        from devrt.arrays.shard import global_shards

        return global_shards(self)

    def addressable_data(self, index: int) -> Array:
        """Return the ``index``-th addressable shard as an array on one device."""
        try:
            buffer = self._buffers[operator.index(index)]
        except (IndexError, TypeError):
            msg = f"there is no addressable shard {index!r}: this process has {len(self._buffers)}."
            raise InvalidArgumentError(msg, index=index) from None
        return Array((buffer,), None, None, self._committed)

    # -- readiness and life -------------------------------------------------------------------

    @names_plugins
    def is_ready(self) -> bool:
        """Return whether every addressable shard has arrived, without waiting."""
        return all(buffer.is_ready() for buffer in self._buffers)

    def block_until_ready(self) -> Array:
        """Wait until every addressable shard has arrived; return the array.

        Raises
        ------
        DevrtError
            The error of the work that was to fill a shard, with the device and operation named.
        """
        buffers = self._buffers
        try:
            if len(buffers) == 1:
                buffers[0].block_until_ready()
                return self
            if buffers:
                buffers[0].device.client.batched_block_until_ready(buffers)
                return self
        except (ClosedError, DeletedError):
            if len(buffers) == 1 or not self.is_deleted():
                raise
        except Exception as error:  # noqa: BLE001  plugin code
            raise_named(error, buffers[0].device.client, "block_until_ready")
        if self.is_deleted():
            raise gone(self, "block_until_ready")
        return self

    def is_deleted(self) -> bool:
        """Return whether the array's memory was given back or donated."""
        # A list: a generator takes longer than all the questions together.
        if any([buffer.is_deleted() for buffer in self._buffers]):
            return True
        return isinstance(self._buffers, NoShards) and self._buffers.is_deleted

    @names_plugins
    def delete(self) -> None:
        """Give the memory back, as soon as no work in flight uses it. Idempotent."""
        for buffer in self._buffers:
            buffer.delete()
        if isinstance(self._buffers, NoShards):
            self._buffers.was_deleted = True
        self._host = self._shown = None

    def clone(self) -> Array:
        """Return another handle on the same memory, deleted independently."""
        buffers = self._buffers
        if len(buffers) == 1:  # the common case, first
            return self._like((buffers[0].clone(),))
        if not buffers:
            return self._another_without_shards("clone")
        return self._like([buffer.clone() for buffer in buffers])

    def copy(self) -> Array:
        """Return an array with memory of its own on the same devices."""
        if not self._buffers:
            return self._another_without_shards("copy")
        if self.is_deleted():
            raise gone(self, "copy")
        memories = [buffer.memory for buffer in self._buffers]
        client = self._buffers[0].device.client
        return self._like(client.batched_copy_to_memory(self._buffers, memories, False))

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        from devrt.arrays.pickling import reduce_array

        return reduce_array(self)

    def copy_to_host_async(self) -> None:
        """Start copying to the host, so that reading it later does not wait as long.

        Arrays on host-visible memory are read in place, so nothing is copied for them.
        """
        self._check_readable("copy_to_host_async")
        self._start_copy_to_host()

    def on_device_size_in_bytes(self) -> int:
        """Return the bytes that the addressable shards take, padding included."""
        return sum(buffer.on_device_size_in_bytes() for buffer in self._buffers)

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the data of an array on one device, valid while it lives."""
        return self._only("unsafe_buffer_pointer").unsafe_buffer_pointer()

    # -- to the host --------------------------------------------------------------------------

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if BROKEN_OFF:
            raise_broken_off(self)
        host = self._host
        # The common cases, first.
        if self._shape is not None:
            host = self._value("numpy.asarray")
        elif host is None and not Config.guards_are_set:
            self._host = host = host_of(self._buffers[0])
        elif host is None or self._buffers[0].is_deleted():
            host = self._value("numpy.asarray")
        if dtype is None and not copy:
            return host
        import numpy as np

        return np.array(host, dtype=dtype, copy=copy)

    def _exported(self, flags: int) -> Any:
        # NumPy calls this in every reading: the common case, first.
        shown = self._shown if flags == _READ_ALL else None
        if type(shown) is str or (shown is not None and not self._buffers[0].is_deleted()):
            return shown
        return exported(self, flags)

    def __bytes__(self) -> bytes:
        return self._value().tobytes()

    tobytes = __bytes__

    def __dlpack__(self, **options: Any) -> Any:
        return capsule_of(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._only("__dlpack_device__").__dlpack_device__()

    __cuda_array_interface__ = property(device_interface)

    def item(self, *index: int) -> Any:
        """Return one element as a Python scalar, by NumPy's rules."""
        return self._value().item(*index)

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars."""
        return self._value().tolist()

    def __len__(self) -> int:
        if not self.shape:
            msg = "len() of an array without dimensions"
            raise TypeError(msg)
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self._value())

    def __int__(self) -> int:
        return int(self._value())

    def __float__(self) -> float:
        return float(self._value())

    def __complex__(self) -> complex:
        return complex(self._value())

    def __index__(self) -> int:
        return self._value().__index__()

    def __format__(self, spec: str) -> str:
        return format(self._value() if self.ndim else self.item(), spec)

    def __str__(self) -> str:
        return outline(self) or str(self._value())

    def __repr__(self) -> str:
        return outline(self) or representation(self)

    # -- helpers ------------------------------------------------------------------------------

    def _another_without_shards(self, operation: str) -> Array:
        if self.is_deleted():
            raise gone(self, operation)
        return self._like(NoShards(self.dtype, self.sharding))

    def _like(self, buffers: Sequence[Buffer]) -> Array:
        """Return an array of the same kind with other buffers."""
        made = Array(buffers, self._sharding, self._shape, self._committed)
        made._key = self._key
        return made

    def _sharding_is_single(self) -> bool:
        return self._shape is None or self._buffers[0].shape == self._shape

    def _only(self, operation: str) -> Buffer:
        if not self._buffers:
            raise held_elsewhere(self, operation)
        if len(self._buffers) != 1:
            msg = (
                f"{operation} needs an array on one device; this one has {len(self._buffers)} "
                "shards. Take a shard with addressable_data(i), or gather the array with "
                "devrt.device_put(x, device)."
            )
            raise InvalidArgumentError(msg, operation=operation)
        return self._buffers[0]

    def _value(
        self, operation: str = "reading it", *, is_explicit: bool = False
    ) -> np.ndarray[Any, Any]:
        """Return the whole array as a read-only NumPy array, made at most once."""
        host = self._host
        if host is not None and not self.is_deleted():
            return host
        if Config.guards_are_set:
            self._check_readable(operation, is_explicit=is_explicit)
        # An array without a shape of its own is its one buffer: the common case, first.
        if self._shape is None or (len(self._buffers) == 1 and self._sharding_is_single()):
            self._host = host = host_of(self._buffers[0])
            return host
        self._host = host = self._gathered()
        return host

    def _check_readable(self, operation: str, *, is_explicit: bool = False) -> None:
        """Ask the transfer guard; what the host sees in place is not transferred."""
        if not Config.guards_are_set or self.is_deleted() or not self._buffers:
            return
        if not self._buffers[0].memory.is_host_visible:
            from devrt.arrays.guards import check_transfer

            check_transfer("device_to_host", operation, self, "the host", is_explicit=is_explicit)

    def _start_copy_to_host(self) -> None:
        for buffer in self._buffers:
            buffer.copy_to_host_async()

    def _gathered(self) -> np.ndarray[Any, Any]:
        from devrt.arrays.shard import gather

        return gather(self)
