"""What a file's first bytes say of it, before the dynamic loader is asked to run its code.

Source: the ELF header's fields (``elf.h``).
"""

from __future__ import annotations

import platform
from typing import Literal

__all__ = ["problem_with"]

_MACHINES = {"x86_64": 62, "aarch64": 183, "arm64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
_NAMES = {3: "x86", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_SHARED = 3


def problem_with(path: str) -> str:
    """Return why a file cannot be a library of this machine, in a clause; empty if it may be one.

    Parameters
    ----------
    path
        The file.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except IsADirectoryError:
        return "it is a folder"
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if head[:4] != b"\x7fELF":
        return "it is no shared library" if head else "it is empty"
    if len(head) < 20:
        return "it is cut short"
    order: Literal["big", "little"] = "big" if head[5] == 2 else "little"
    kind = int.from_bytes(head[16:18], order)
    machine = int.from_bytes(head[18:20], order)
    wanted = _MACHINES.get(platform.machine())
    if wanted is not None and machine != wanted:
        other = _NAMES.get(machine, f"number {machine}")
        return f"it is for another processor ({other}), and this one is {platform.machine()}"
    return "" if kind == _SHARED else "it is a program or an object file, no shared library"
