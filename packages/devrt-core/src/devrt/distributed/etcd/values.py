"""Values as they are in etcd: large ones in pieces, since a request has at most 1.5 MiB."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator

__all__ = ["PIECE", "Pieces", "encoded", "pieces_of"]

PIECE = 512 << 10
_INLINE, _IN_PIECES = b"\0", b"\1"
_HEAD = struct.Struct(">16sIQ")


class Pieces:
    """Where the pieces of a large value are.

    Parameters
    ----------
    identity
        What their keys begin with; no two values have the same.
    count
        How many there are.
    size
        The bytes of all.
    """

    def __init__(self, identity: bytes, count: int, size: int) -> None:
        self.identity = identity
        self.count = count
        self.size = size

    @classmethod
    def of(cls, value: bytes) -> Pieces:
        """Return new ones for a value."""
        return cls(secrets.token_bytes(16), -(-len(value) // PIECE), len(value))

    def record(self) -> bytes:
        """Return what is kept under the value's key."""
        return _IN_PIECES + _HEAD.pack(self.identity, self.count, self.size)

    def folder(self, root: str) -> str:
        """Return what the keys of all pieces begin with."""
        return f"{root}{self.identity.hex()}/"

    def split(self, root: str, value: bytes) -> Iterator[tuple[str, bytes]]:
        """Give each piece's key and bytes."""
        for number in range(self.count):
            start = number * PIECE
            yield f"{self.folder(root)}{number:08d}", value[start : start + PIECE]


def encoded(value: bytes) -> bytes:
    """Return a small value as it is kept."""
    return _INLINE + value


def pieces_of(kept: bytes) -> Pieces | None:
    """Return where the pieces of what is kept are; None if it is the value itself."""
    return Pieces(*_HEAD.unpack(kept[1:])) if kept[:1] == _IN_PIECES else None
