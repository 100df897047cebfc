"""MLIR's bytecode with its constants as StableHLO has them; see `plain_constants`.

Source: https://mlir.llvm.org/docs/BytecodeFormat, and the numbers of attributes in the builtin
dialect. Only tables are written anew: operations refer to attributes and to their own names by
number, and the numbers stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from devrt.compiling.constant_data import check_size
from devrt.compiling.mlir_bytecode import MAGIC, UNREADABLE, Bytecode, Reader
from devrt.errors import InvalidArgumentError

__all__ = ["rewritten"]

_DIALECTS, _ENTRIES, _OFFSETS, _RESOURCES, _PLACES = 1, 2, 3, 5, 6  # kinds of sections
_ALIGNED, _PADDING = 0x80, b"\xcb"
_RESOURCE, _DENSE = ("builtin", 16), 18  # attributes
_CONSTANT = "arith.constant"

_Bytes = bytes | memoryview
_Blob = tuple[bytes, memoryview]  # the name of a resource, and its data


class _Section(NamedTuple):
    kind: int
    alignment: int
    begin: int
    data: memoryview


def rewritten(code: bytes) -> bytes | None:
    """Return bytecode whose constants are in it and StableHLO's; None if they are already.

    What cannot be read is left to the compiler.

    Raises
    ------
    InvalidArgumentError
        If a constant's data are of another size than it.
    """
    try:
        head, *sections = _sections(code)
        by_kind = {section.kind: section.data for section in sections}
        has_resources = len(by_kind.get(_PLACES, b"")) > 1
        if not has_resources and code.find(b"\0arith\0") < 0:
            return None
        tables = Bytecode(code)
        changed = _renamed(by_kind[_DIALECTS], tables)
        if has_resources:
            changed |= _inlined(by_kind, tables, list(_blobs(code, sections, tables)))
    except InvalidArgumentError:  # which is a ValueError
        raise
    except UNREADABLE:
        return None
    return _joined(head.data, sections, changed) if changed else None


def _sections(code: bytes) -> Iterator[_Section]:
    """Yield what comes before the sections, as one, and each section."""
    view = memoryview(code)
    reader = Reader(view, len(MAGIC))
    reader.number()  # the version
    reader.at = code.index(b"\0", reader.at) + 1  # the producer
    yield _Section(0, 0, 0, view[: reader.at])
    while reader.at < len(code):
        kind, length, alignment = reader.take(1)[0], reader.number(), 0
        if kind & _ALIGNED:
            alignment = reader.number()
            reader.at += -reader.at % alignment
        begin = reader.at
        reader.take(length)
        yield _Section(kind & ~_ALIGNED, alignment, begin, view[begin : reader.at])


def _blobs(code: bytes, sections: list[_Section], tables: Bytecode) -> Iterator[_Blob]:
    """Yield the name and data of each resource of a dialect, in the order attributes count them."""
    begin = next(section.begin for section in sections if section.kind == _RESOURCES)
    places = Reader(next(section.data for section in sections if section.kind == _PLACES))
    view = memoryview(code)
    for is_dialects, name, size in _resources(places):
        if is_dialects:
            reader = Reader(view[: begin + size], begin)
            alignment, length = reader.number(), reader.number()
            reader.at += -reader.at % max(1, alignment)  # none of what is empty
            yield tables.strings[name], view[reader.at : reader.at + length]
            reader.take(length)
        begin += size


def _resources(places: Reader) -> Iterator[tuple[bool, int, int]]:
    """Yield of each resource whether a dialect has it, its name, and its size with its head."""
    outside = places.number()
    while places.at < len(places.data):
        places.number()  # whose they are
        for _ in range(places.number()):
            name, size = places.number(), places.number()
            places.take(1)  # the kind
            yield outside <= 0, name, size
        outside -= 1


def _inlined(
    by_kind: dict[int, memoryview], tables: Bytecode, blobs: list[_Blob]
) -> dict[int, list[_Bytes]]:
    """Return the table of attributes and types with data in place of resources."""
    offsets, data = Reader(by_kind[_OFFSETS]), Reader(by_kind[_ENTRIES])
    attributes, types = offsets.number(), offsets.number()
    sizes: list[_Bytes] = [_number(attributes), _number(types)]
    entries: list[list[_Bytes]] = []
    while len(entries) < attributes + types:
        dialect, given = offsets.number(), offsets.numbers()
        sizes += [_number(dialect), _number(len(given))]
        for entry in given:
            pieces: list[_Bytes] = [data.take(entry >> 1)]
            if entry & 1 and len(entries) < attributes:
                pieces = _plain(tables.dialects[dialect], pieces[0], tables, blobs)
            entries.append(pieces)
            sizes.append(_number(sum(map(len, pieces)) << 1 | entry & 1))
    joined = [piece for pieces in entries for piece in pieces]
    return {_ENTRIES: joined, _OFFSETS: sizes, _RESOURCES: [], _PLACES: []}


def _plain(dialect: str, entry: _Bytes, tables: Bytecode, blobs: list[_Blob]) -> list[_Bytes]:
    """Return an attribute in pieces; one that names a resource with its data."""
    reader = Reader(entry)
    if (dialect, reader.number()) != _RESOURCE:
        return [entry]
    kind, (name, blob) = reader.number(), blobs[reader.number()]
    check_size(name, len(blob), tables.tensor_text(kind))
    data: _Bytes = blob
    if tables.is_boolean(kind):  # eight to a byte
        data = np.packbits(np.frombuffer(blob, np.bool_), bitorder="little").tobytes()
    return [_number(_DENSE), _number(kind), _number(len(data)), data]


def _renamed(section: memoryview, tables: Bytecode) -> dict[int, list[_Bytes]]:
    """Return the table of dialects in which ``arith.constant`` is StableHLO's; empty without it.

    The names of operations are listed by dialect: the list's dialect is changed.
    """
    ours = [name for name in tables.names if name.startswith("arith.")]
    if set(ours) != {_CONSTANT} or "stablehlo" not in tables.dialects:
        return {}
    pieces: list[_Bytes] = []
    at = 0
    for dialect, begin, end in tables.groups:
        if dialect == "arith":
            pieces += [section[at:begin], _number(tables.dialects.index("stablehlo"))]
            at = end
    return {_DIALECTS: [*pieces, section[at:]]}


def _joined(head: _Bytes, sections: list[_Section], changed: dict[int, list[_Bytes]]) -> bytes:
    out = bytearray(head)
    for section in sections:
        pieces: list[_Bytes] = changed.get(section.kind, [section.data])
        size = sum(map(len, pieces))
        if section.kind in (_RESOURCES, _PLACES) and not size:
            continue
        alignment = section.alignment
        out.append(section.kind | (_ALIGNED if alignment else 0))
        out += _number(size)
        if alignment:
            out += _number(alignment)
            out += _PADDING * (-len(out) % alignment)
        for piece in pieces:
            out += piece
    return bytes(out)


def _number(value: int) -> bytes:
    """Return a number as `Reader.number` reads it."""
    length = max(1, -(-value.bit_length() // 7))
    if length > 8:
        return b"\0" + value.to_bytes(8, "little")
    return (value << length | 1 << (length - 1)).to_bytes(length, "little")
