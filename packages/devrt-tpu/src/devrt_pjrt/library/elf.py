"""What a file's first bytes say of it, before the dynamic loader runs its code.

Source: the ELF header's fields (``elf.h``).
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, Literal

__all__ = ["problem_with"]

_MACHINES = {"x86_64": 62, "aarch64": 183, "arm64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
_NAMES = {3: "x86", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_SHARED, _64_BIT, _LOADED = 3, 2, 1
_HEADER, _ROW = 64, 56


def problem_with(path: str) -> str:
    """Return why a file cannot be a library of this machine; empty if it may be one."""
    try:
        found = os.stat(path)
        if stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            with open(path, "rb") as file:
                return _problem_in(file, found.st_size)
    except FileNotFoundError:
        return "there is no such file"
    except ValueError:
        return "no file can have this name"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no regular file"


def _problem_in(file: BinaryIO, size: int) -> str:
    head = file.read(_HEADER)
    if head[:4] != b"\x7fELF":
        return "it is no shared library" if head else "it is empty"
    if len(head) < 20:
        return "it is cut short"
    order: Literal["big", "little"] = "big" if head[5] == 2 else "little"
    kind = int.from_bytes(head[16:18], order)
    machine = int.from_bytes(head[18:20], order)
    wanted = _MACHINES.get(os.uname().machine)
    if wanted is not None and machine != wanted:
        other = _NAMES.get(machine, f"number {machine}")
        return f"it is for another processor ({other}), and this one is {os.uname().machine}"
    if kind != _SHARED:
        return "it is a program or an object file, no shared library"
    return "it is cut short" if head[4] == _64_BIT and _is_cut(file, head, size, order) else ""


def _is_cut(file: BinaryIO, head: bytes, size: int, order: Literal["big", "little"]) -> bool:
    """Return whether a segment ends behind the file: the loader dies of reading such a one."""
    if len(head) < _HEADER:
        return True
    table = int.from_bytes(head[32:40], order)
    width, count = (int.from_bytes(head[at : at + 2], order) for at in (54, 56))
    file.seek(min(table, size))
    rows = file.read(width * count)
    if len(rows) < width * count or width < _ROW:
        return True
    for at in range(0, len(rows), width):
        kind = int.from_bytes(rows[at : at + 4], order)
        start, _, _, length = (
            int.from_bytes(rows[at + field : at + field + 8], order) for field in (8, 16, 24, 32)
        )
        if kind == _LOADED and start + length > size:
            return True
    return False
