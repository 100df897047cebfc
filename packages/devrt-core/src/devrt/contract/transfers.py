"""Operations on many buffers in one call, for clients that have no faster way of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from devrt.contract.buffer import HostBufferSemantics
from devrt.contract.results import checked_array

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract.assembly import Assembly, Piece
    from devrt.contract.buffer import Buffer
    from devrt.contract.device import Device, Memory

__all__ = ["BatchedTransfers"]

_KEPT = int(HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES)


class BatchedTransfers:
    """What a client does with many buffers at once; a client may do each in one native call."""

    def buffers_from_pyvals(
        self,
        arguments: Sequence[Any],
        targets: Sequence[Device | Memory],
        host_buffer_semantics: int = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
    ) -> list[Buffer]:
        """Start the transfer of each host value to the target at its index.

        Parameters and errors are those of `Client.buffer_from_pyval`.

        Returns
        -------
        list of Buffer
            One for each target, in order. Does not wait.
        """
        put: Any = self
        return [
            put.buffer_from_pyval(argument, target, False, host_buffer_semantics)
            for argument, target in zip(arguments, targets, strict=True)
        ]

    def batched_copy_to_memory(
        self,
        buffers: Sequence[Buffer],
        targets: Sequence[Device | Memory],
        may_alias: bool = True,
    ) -> list[Buffer]:
        """Start a copy of each buffer to the target at its index, as `Buffer.copy_to_memory`.

        Returns
        -------
        list of Buffer
            One for each target, in order. Does not wait.
        """
        return [
            buffer.copy_to_memory(_memory_of(target), may_alias=may_alias)
            for buffer, target in zip(buffers, targets, strict=True)
        ]

    def assemble_buffers(
        self,
        sources: Sequence[Buffer],
        assembly: Assembly,
        targets: Sequence[Device | Memory],
        may_alias: bool = True,
    ) -> list[Buffer]:
        """Start making blocks out of pieces of other buffers, and put them on targets.

        Parameters
        ----------
        sources
            Buffers of one element type; here, of any client.
        assembly
            Which pieces make which block, and which block each target gets.
        targets
            Devices or memories of this client. Targets of one block whose memories are one
            address space may share the allocation.
        may_alias
            Whether a block that is one run of elements of a source in the same address space may
            share its memory.

        Returns
        -------
        list of Buffer
            One for each target, in order, with ready events of their own.

        Notes
        -----
        This implementation goes through host memory, one block at a time, and spreads a block
        that several targets get by copies between them. A client that can copy parts of buffers
        on its devices should do so instead.
        """
        client: Any = self

        def put(block: Any, target: Any) -> Buffer:
            buffer: Buffer = client.buffer_from_pyval(block, target, False, _KEPT)
            return buffer

        return assemble_on_host(sources, assembly, targets, put)

    def batched_copy_to_host(
        self, buffers: Sequence[Buffer], offsets: Sequence[tuple[int, ...]], out: Any
    ) -> None:
        """Wait for buffers and write each into an array in host memory.

        Parameters
        ----------
        buffers
            The buffers, of the array's element type.
        offsets
            For each the index in ``out`` of its first element.
        out
            A writable, C-contiguous NumPy array.
        """
        for buffer, offset in zip(buffers, offsets, strict=True):
            index = tuple(slice(o, o + n) for o, n in zip(offset, buffer.shape, strict=True))
            out[index] = checked_array(buffer)

    def batched_block_until_ready(self, buffers: Sequence[Buffer]) -> None:
        """Wait for every buffer with the GIL released; raise the first error.

        Parameters
        ----------
        buffers
            Buffers of one class, of this client or of others that have the same class of buffers.

        Raises
        ------
        InvalidArgumentError
            If it is no sequence of buffers.
        """
        for buffer in _checked_buffers(buffers):
            buffer.block_until_ready()


def assemble_on_host(
    sources: Sequence[Buffer],
    assembly: Assembly,
    targets: Sequence[Device | Memory],
    put: Callable[[Any, Any], Buffer],
) -> list[Buffer]:
    """Make blocks in host memory, one at a time, and ``put`` each on the first of its targets.

    The other targets of a block get it by a copy within their client.
    """
    first: dict[int, Buffer] = {}
    made = []
    for number, target in zip(assembly.block_of, targets, strict=True):
        if number in first:
            made.append(first[number].copy_to_memory(_memory_of(target)))
            continue
        block = _assembled(sources, assembly.blocks[number], assembly.shape)
        first[number] = buffer = put(block, target)
        made.append(buffer)
    return made


def _checked_buffers(given: Any) -> list[Buffer]:
    """Return buffers as a list; read before the first is waited for."""
    buffers = list(given) if isinstance(given, Iterable) else None
    wrong = [given] if buffers is None else [b for b in buffers if not _can_wait(b)]
    if buffers is None or wrong:
        from devrt.errors import InvalidArgumentError

        msg = (
            "batched_block_until_ready takes a sequence of buffers of this client; "
            f"{wrong[0]!r} of type {type(wrong[0]).__name__} is none."
        )
        raise InvalidArgumentError(msg, operation="batched_block_until_ready")
    return buffers


def _can_wait(buffer: Any) -> bool:
    return hasattr(buffer, "block_until_ready")


def _memory_of(target: Any) -> Memory:
    memory: Memory = target.default_memory() if hasattr(target, "default_memory") else target
    return memory


def _assembled(
    sources: Sequence[Buffer], pieces: Sequence[Piece], shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Return a block in host memory; without a copy where it is a part of one source."""
    import numpy as np

    if len(pieces) == 1 and pieces[0].extent == shape:
        return _part(checked_array(sources[pieces[0].source]), pieces[0].source_start, shape)
    block = np.empty(shape, sources[0].dtype)
    for piece in pieces:
        source = checked_array(sources[piece.source])
        target = _part(block, piece.block_start, piece.extent)
        target[...] = _part(source, piece.source_start, piece.extent)
    return block


def _part(
    array: np.ndarray[Any, Any], start: tuple[int, ...], extent: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    part: np.ndarray[Any, Any] = array[
        tuple(slice(s, s + n) for s, n in zip(start, extent, strict=True))
    ]
    return part
