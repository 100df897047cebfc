"""What a shared library says of itself to the dynamic loader, read without loading it.

Source: the ELF header's fields and the dynamic section (``elf.h``); 64-bit files only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

__all__ = ["SharedLibrary", "read_library"]

_DYNAMIC, _DYNAMIC_SYMBOLS = 6, 11  # types of sections
_NEEDED, _RPATH, _RUNPATH = 1, 15, 29  # tags of the dynamic section
_CLASS_64, _BIG_ENDIAN = 2, 2


class SharedLibrary(NamedTuple):
    """A shared library's dynamic section and symbols.

    Attributes
    ----------
    needed : tuple of str
        The libraries that the loader opens with it.
    search_path : str
        Where it looks for them first; folders with colons between.
    defined : frozenset of str
        The symbols that it defines for others.
    """

    needed: tuple[str, ...]
    search_path: str
    defined: frozenset[str]


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def read_library(data: bytes) -> SharedLibrary:
    """Read a shared library.

    Raises
    ------
    ValueError
        If the bytes are none, are cut short, or are of 32 bits.
    """
    if data[:4] != b"\x7fELF" or len(data) < 64 or data[4] != _CLASS_64:
        msg = "it is no shared library of 64 bits"
        raise ValueError(msg)
    order: Literal["<", ">"] = ">" if data[5] == _BIG_ENDIAN else "<"
    try:
        sections = list(_sections(data, order))
        tags = list(_dynamic(data, order, sections))
        symbols = frozenset(_defined(data, order, sections))
    except (struct.error, IndexError) as error:
        msg = "it is cut short or damaged"
        raise ValueError(msg) from error
    needed = tuple(text for tag, text in tags if tag == _NEEDED)
    paths = [text for tag, text in tags if tag in (_RPATH, _RUNPATH)]
    return SharedLibrary(needed, ":".join(paths), symbols)


def _sections(data: bytes, order: str) -> Iterator[_Section]:
    (table,) = struct.unpack_from(f"{order}Q", data, 40)
    width, count = struct.unpack_from(f"{order}HH", data, 58)
    for at in range(table, table + width * count, width or 1):
        kind = struct.unpack_from(f"{order}I", data, at + 4)[0]
        offset, size, link = struct.unpack_from(f"{order}QQI", data, at + 24)
        yield _Section(kind, offset, size, link)


def _dynamic(data: bytes, order: str, sections: list[_Section]) -> Iterator[tuple[int, str]]:
    for section in sections:
        if section.kind != _DYNAMIC:
            continue
        texts = sections[section.link].offset
        for at in range(section.offset, section.offset + section.size, 16):
            tag, value = struct.unpack_from(f"{order}qQ", data, at)
            if tag in (_NEEDED, _RPATH, _RUNPATH):
                yield tag, _text(data, texts + value)


def _defined(data: bytes, order: str, sections: list[_Section]) -> Iterator[str]:
    for section in sections:
        if section.kind != _DYNAMIC_SYMBOLS:
            continue
        texts = sections[section.link].offset
        for at in range(section.offset, section.offset + section.size, 24):
            name, _, _, home = struct.unpack_from(f"{order}IBBH", data, at)
            if home:  # 0: another library's
                yield _text(data, texts + name)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", "replace")
