"""How a compiler divided values within a program, which its result does not tell any more.

XLA divides a program in passes: Shardy notes at each instruction how its value is divided, then the
partitioner puts a device's part in the value's place. What the first left is had by letting the
compiler write it into a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from devrt.contract.op_sharding import OpSharding
from devrt.wire.protobuf import Message

__all__ = ["FOLDER_FLAG", "marked_shardings", "writing_flags"]

FOLDER_FLAG = "xla_dump_to"
"""The compiler's flag for the folder into which it writes."""

_PASS = "shardy-xla"
_TUPLE = 2


def writing_flags(folder: str) -> dict[str, str | bool]:
    """Return the flags with which a compiler writes the divided program into a folder."""
    return {FOLDER_FLAG: folder, "xla_dump_hlo_pass_re": _PASS, "xla_dump_hlo_as_proto": True}


def marked_shardings(folder: str, mark: str) -> dict[int, OpSharding]:
    """Return how the operands of marked barriers are divided.

    Parameters
    ----------
    folder
        Where the compiler wrote.
    mark
        The name of the frontend attribute that marks a barrier; its value is the numbers of the
        barrier's first operands.

    Returns
    -------
    dict
        By the operands' numbers; empty if the compiler wrote nothing.
    """
    found: dict[int, OpSharding] = {}
    for entry in os.scandir(folder):
        if entry.name.endswith(".pb") and f".after_{_PASS}" in entry.name:
            with open(entry.path, "rb") as file:
                for instruction in _barriers(Message(file.read()).message(1)):
                    numbers = map(int, _attribute(instruction, mark).split())
                    found.update(zip(numbers, _operands(instruction), strict=False))
    return found


def _barriers(module: Message) -> Iterator[Message]:
    """Yield the barriers of an ``HloModuleProto``."""
    for computation in module.messages(3):
        for instruction in computation.messages(2):
            if instruction.text(2) == "opt-barrier":
                yield instruction


def _attribute(instruction: Message, name: str) -> str:
    """Return one of an instruction's ``FrontendAttributes``; empty if it has none."""
    entries = instruction.message(68).messages(1)
    return next((entry.text(2) for entry in entries if entry.text(1) == name), "")


def _operands(instruction: Message) -> Iterator[OpSharding]:
    sharding = instruction.message(40)
    parts = sharding.parts(5) if sharding.number(1) == _TUPLE else [instruction.part(40)]
    return map(OpSharding.parse, parts)
