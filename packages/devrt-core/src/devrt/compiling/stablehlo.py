"""What a StableHLO module says of the devices it is for, read without a compiler.

Text says it in words. Bytecode is MLIR's: sections of strings and of encoded attributes, of which
those are decoded that can say it (https://mlir.llvm.org/docs/BytecodeFormat).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from devrt.compiling.program_text import read_text

__all__ = [
    "ModuleFacts",
    "bytecode_operations",
    "for_older_readers",
    "is_bytecode",
    "module_facts",
    "operations",
]

_MAGIC = b"ML\xefR"
_STRINGS, _DIALECTS, _ATTRIBUTES, _OFFSETS = 0, 1, 2, 3
# Versions of the format: from when dialects have versions, and names of operations are counted and
# say whether they are registered.
_SAYS_VERSION, _SAYS_HOW_MANY, _SAYS_REGISTERED = 1, 4, 5
_DICTIONARY, _MESH = b"\x03", b"\x05"  # kind 1 of the builtin attributes, kind 2 of Shardy's
_STRUCTURE = {f"stablehlo.{name}" for name in ("call", "func", "return")}
_VERSION = re.compile(r"_v\d+$")


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts of one module.

    Attributes
    ----------
    num_replicas, num_partitions
        As the module says; None where it does not.
    meshes
        Axes, by name and size, of the Shardy meshes with more than one device.
    """

    num_replicas: int | None = None
    num_partitions: int | None = None
    meshes: tuple[tuple[tuple[str, int], ...], ...] = ()


def is_bytecode(code: bytes) -> bool:
    """Return whether a module is bytecode rather than text."""
    return code.startswith(_MAGIC)


def for_older_readers(code: bytes, refusal: str) -> bytes | None:
    """Return bytecode with an operation under the name that a refusing compiler knows.

    Exporters write versions of StableHLO that are months old, and a compiler may be older still.
    ``composite_v2``, what jax writes for ``top_k`` or ``arcsin``, is ``composite_v1`` with regions
    that may be there: without any, which the compiler checks, both are encoded alike.

    Parameters
    ----------
    code
        The module.
    refusal
        What the compiler said of it.

    Returns
    -------
    bytes or None
        None where nothing can be done.
    """
    if "vhlo.composite_v2" not in refusal or not is_bytecode(code):
        return None
    return code.replace(b"\0composite_v2\0", b"\0composite_v1\0")


def module_facts(code: bytes) -> ModuleFacts:
    """Return what a module, text or bytecode, says of the devices it is for.

    Bytecode that cannot be read says nothing: whether it is right is the compiler's to tell.
    """
    if not is_bytecode(code):
        return _text_facts(code)
    try:
        return _bytecode_facts(_Bytecode(code))
    except (IndexError, KeyError, ValueError, RecursionError):
        return ModuleFacts()


def operations(code: bytes) -> tuple[str, ...]:
    """Return the operations that a module, text or bytecode, is written in, sorted.

    Calls, functions and what else gives a module its structure are left out. Those of portable
    bytecode have the names of StableHLO, without their versions; what cannot be read has none.
    """
    if not is_bytecode(code):
        names = read_text(code).operations
    else:
        found = bytecode_operations(code)
        names = {name for name in found if name.startswith(("stablehlo.", "chlo."))}
    return tuple(sorted(names - _STRUCTURE))


def bytecode_operations(code: bytes) -> set[str]:
    """Return the operations that bytecode names, of every dialect; none where it cannot be read."""
    try:
        found = _Bytecode(code).operations()
    except (IndexError, KeyError, ValueError):
        return set()
    return {_VERSION.sub("", name.replace("vhlo.", "stablehlo.")) for name in found}


def _text_facts(code: bytes) -> ModuleFacts:
    text = read_text(code)
    counts = text.counts
    return ModuleFacts(
        counts.get("num_replicas"), counts.get("num_partitions"), _distinct(text.meshes)
    )


def _distinct(meshes: list[tuple[tuple[str, int], ...]]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(mesh for mesh in meshes if any(size > 1 for _, size in mesh)))


def _bytecode_facts(bytecode: _Bytecode) -> ModuleFacts:
    numbers: dict[str, int] = {}
    meshes = []
    for number, (dialect, encoded) in enumerate(bytecode.attributes):
        if dialect == "sdy" and encoded.startswith(_MESH):
            meshes.append(bytecode.mesh(number))
        elif dialect == "builtin" and encoded.startswith(_DICTIONARY):
            value = bytecode.builtin(number, depth=1)
            known = {"mhlo.num_replicas", "mhlo.num_partitions"} & value.keys()
            numbers |= {name: value[name] for name in known if isinstance(value[name], int)}
    return ModuleFacts(
        numbers.get("mhlo.num_replicas"), numbers.get("mhlo.num_partitions"), _distinct(meshes)
    )


class _Reader:
    """A place in some bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Read a number whose first byte says, by its trailing zeros, how many bytes follow."""
        first = self.take(1)[0]
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        return int.from_bytes(bytes([first]) + self.take(more), "little") >> (more + 1)

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)


class _Bytecode:
    """The strings and the encoded attributes of a module."""

    def __init__(self, code: bytes) -> None:
        found = list(_sections(code))
        sections = {kind: data for kind, _, data in found}
        self._starts = {kind: start for kind, start, _ in found}
        self._strings = _strings(sections[_STRINGS])
        self._version = _Reader(code, len(_MAGIC)).number()
        self._sections = sections
        self.attributes = self._read_attributes(sections)

    def _read_attributes(self, sections: dict[int, bytes]) -> list[tuple[str, bytes]]:
        """Return the dialect and the encoding of each attribute; nothing of those in text."""
        dialects = self._dialects(_Reader(sections[_DIALECTS]))
        offsets, data = _Reader(sections[_OFFSETS]), _Reader(sections[_ATTRIBUTES])
        count, _ = offsets.number(), offsets.number()
        found: list[tuple[str, bytes]] = []
        self.places: list[int] = []
        while len(found) < count:
            dialect = dialects[offsets.number()]
            for _ in range(offsets.number()):
                entry = offsets.number()
                self.places.append(self._starts[_ATTRIBUTES] + data.at)
                encoded = data.take(entry >> 1)
                found.append((dialect, encoded if entry & 1 else b""))
        return found[:count]

    def _dialects(self, reader: _Reader) -> list[str]:
        names = []
        for _ in range(reader.number()):
            entry = reader.number()
            if self._version < _SAYS_VERSION:
                entry <<= 1
            names.append(self._strings[entry >> 1])
            if entry & 1:
                reader.take(reader.number())
        return names

    def operations(self) -> list[str]:
        """Return the names of the operations, with their dialects'."""
        reader = _Reader(self._sections[_DIALECTS])
        dialects = self._dialects(reader)
        names = []
        if self._version >= _SAYS_HOW_MANY:
            reader.number()  # how many there are
        while reader.at < len(reader.data):
            dialect = dialects[reader.number()]
            for _ in range(reader.number()):
                entry = reader.number()
                name = entry >> 1 if self._version >= _SAYS_REGISTERED else entry
                names.append(f"{dialect}.{self._strings[name]}")
        return names

    def builtin(self, number: int, depth: int) -> Any:
        """Return a string, an integer or, `depth` levels down, a dictionary; else None."""
        dialect, encoded = self.attributes[number]
        if dialect != "builtin" or not encoded:
            return None
        reader = _Reader(encoded)
        kind = reader.number()
        if kind == 1 and depth > 0:
            pairs = [(reader.number(), reader.number()) for _ in range(reader.number())]
            return {self.builtin(k, 0): self.builtin(v, depth - 1) for k, v in pairs}
        if kind == 2:
            return self._strings[reader.number()]
        if kind == 8:
            reader.number()  # its type
            is_byte = len(encoded) - reader.at == 1 and encoded[-1] == 0
            return 0 if is_byte else reader.signed()
        return None

    def mesh(self, number: int) -> tuple[tuple[str, int], ...]:
        """Return the axes of an attribute that is a mesh."""
        reader = _Reader(self.attributes[number][1], len(_MESH))
        axes = [_Reader(self.attributes[reader.number()][1]) for _ in range(reader.number())]
        return tuple(self._axis(axis) for axis in axes)

    def _axis(self, reader: _Reader) -> tuple[str, int]:
        if reader.number() != 1:
            raise ValueError(reader.data)
        return self._strings[reader.number()], reader.signed()


def _sections(code: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the kind, the place and the contents of each section."""
    reader = _Reader(code, len(_MAGIC))
    reader.number()  # the version
    reader.at = code.index(b"\0", reader.at) + 1  # the producer
    while reader.at < len(code):
        kind = reader.take(1)[0]
        length = reader.number()
        if kind & 0x80:
            alignment = reader.number()
            if not alignment:
                raise ValueError("a section of the bytecode is aligned to nothing")
            reader.at += -reader.at % alignment
        yield kind & 0x7F, reader.at, reader.take(length)


def _strings(section: bytes) -> list[str]:
    reader = _Reader(section)
    lengths = [reader.number() for _ in range(reader.number())]
    return [reader.take(length)[:-1].decode(errors="replace") for length in reversed(lengths)]
