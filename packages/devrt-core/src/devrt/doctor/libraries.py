"""The symbols that a shared library exports, read from the file; the library is not opened.

The reader follows the ELF specification (System V ABI, chapters 4 and 5): header, section headers,
the dynamic symbol table and its string table. Other formats are reported as unknown.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ENTRY_POINT", "exported_symbols", "surplus_exports"]

ENTRY_POINT = "GetPjrtApi"
"""The one function that a PJRT library has to export."""

_SHT_DYNSYM = 11
_UNDEFINED = 0
_ABSOLUTE = 0xFFF1
_EXPORTING = (1, 2, 10)  # STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE
_VISIBLE = (0, 3)  # STV_DEFAULT, STV_PROTECTED
_MAX_SYMBOLS = 1 << 20

# Put there by linkers and start files, the same in every library.
_LINKERS_OWN = frozenset({"_init", "_fini", "_edata", "_end", "_etext", "__bss_start"})


def surplus_exports(path: Path) -> tuple[str, ...] | None:
    """Return what a PJRT library exports beside its entry point, sorted; None if unknown.

    A surplus symbol can shadow another library's of the same name.
    """
    symbols = exported_symbols(path)
    if symbols is None:
        return None
    return tuple(sorted(set(symbols) - {ENTRY_POINT} - _LINKERS_OWN))


def exported_symbols(path: Path) -> tuple[str, ...] | None:
    """Return the names that a library exports; None where that cannot be read.

    Raises nothing on account of the file's content: a damaged file is one that cannot be read.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < 64 or file.read(4) != b"\x7fELF":
                return None
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _symbols(data)
    except (OSError, ValueError, OverflowError, struct.error):
        return None


class _Format:
    """Where the fields lie in one class (32 or 64 bits) and byte order of ELF."""

    def __init__(self, data: mmap.mmap) -> None:
        bits, order = data[4], data[5]
        if bits not in (1, 2) or order not in (1, 2):
            raise ValueError("neither class nor byte order is known")
        mark = "<" if order == 1 else ">"
        wide = bits == 2
        self.header = struct.Struct(mark + ("16x8xQQQ4x6xHHH" if wide else "16x8xIII4x6xHHH"))
        self.section = struct.Struct(mark + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
        # 64 bits: name, info, other, section, value, size; 32 bits: name, value, size, info ...
        self.symbol = struct.Struct(mark + ("IBBHQQ" if wide else "IIIBBH"))
        self._wide = wide

    def fields(self, symbol: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return name, info, other and section of a symbol."""
        if self._wide:
            return symbol[0], symbol[1], symbol[2], symbol[3]
        return symbol[0], symbol[3], symbol[4], symbol[5]


def _symbols(data: mmap.mmap) -> tuple[str, ...] | None:
    form = _Format(data)
    _, _, table_at, entry_size, count, _ = form.header.unpack_from(data, 0)
    if entry_size < form.section.size:
        return None
    sections = [
        form.section.unpack_from(data, table_at + index * entry_size) for index in range(count)
    ]
    tables = [section for section in sections if section[1] == _SHT_DYNSYM]
    if not tables:
        return None
    _, _, _, _, at, size, link, _, _, _ = tables[0]
    _, _, _, _, strings_at, strings_size, *_ = sections[link] if link < count else sections[0]
    if at + size > len(data) or strings_at + strings_size > len(data):
        return None
    names = (_name(data, strings_at, strings_size, name) for name in _exports(data, form, at, size))
    return tuple(sorted({name for name in names if name}))


def _exports(data: mmap.mmap, form: _Format, at: int, size: int) -> Iterator[int]:
    """Yield where the names of the exported symbols begin in the string table."""
    for index in range(min(size // form.symbol.size, _MAX_SYMBOLS)):
        symbol = form.symbol.unpack_from(data, at + index * form.symbol.size)
        name, info, other, section = form.fields(symbol)
        if section in (_UNDEFINED, _ABSOLUTE):
            continue  # needed from elsewhere; or the name of a version
        if info >> 4 in _EXPORTING and other & 3 in _VISIBLE:
            yield name


def _name(data: mmap.mmap, strings_at: int, strings_size: int, offset: int) -> str:
    if offset >= strings_size:
        return ""
    start = strings_at + offset
    end = data.find(b"\0", start, strings_at + strings_size)
    return data[start : end if end >= 0 else strings_at + strings_size].decode(errors="replace")
