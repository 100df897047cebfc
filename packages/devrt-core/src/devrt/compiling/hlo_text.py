"""A compiled program as text, in the notation of HLO, for people to read.

Field numbers: ``xla/service/hlo.proto`` and ``xla/xla_data.proto``. The text leaves out what tells
little (metadata, schedules, the values of large constants); nothing reads it again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from devrt.compiling.hlo import ELEMENT_TYPE_NAMES
from devrt.wire.protobuf import Message

__all__ = ["hlo_text"]

_TUPLE = 13
_LITERALS = {4: "i", 5: "q", 6: "I", 7: "Q", 8: "f", 9: "d"}
_CALLS = {"fusion": "calls", "while": "body", "conditional": "branches", "call": "to_apply"}


def hlo_text(program: bytes) -> str:
    """Return an optimised program as text.

    Parameters
    ----------
    program
        A serialised ``HloModuleProtoWithConfig``, as `LoadedExecutable.optimized_program` gives it.

    Raises
    ------
    InvalidArgumentError
        If the bytes are no such message.
    """
    module = Message(program).message(1)
    computations = module.messages(3)
    names = {c.number(5): c.text(1) for c in computations}
    entry = module.number(6)
    parts = [f"HloModule {module.text(1)}"]
    parts += [_computation(c, names, is_entry=c.number(5) == entry) for c in computations]
    return "\n\n".join(parts) + "\n"


def _computation(message: Message, names: dict[int, str], *, is_entry: bool) -> str:
    instructions = message.messages(2)
    operands = {i.number(35): i.text(1) for i in instructions}
    root = message.number(6)
    parameters = sorted(
        (i for i in instructions if i.text(2) == "parameter"), key=lambda i: i.number(9)
    )
    takes = ", ".join(f"{i.text(1)}: {_shape_of(i)}" for i in parameters)
    gives = next((_shape_of(i) for i in instructions if i.number(35) == root), "()")
    lines = [f"{'ENTRY ' if is_entry else ''}%{message.text(1)} ({takes}) -> {gives} {{"]
    for one in instructions:
        mark = "ROOT " if one.number(35) == root else ""
        lines.append(f"  {mark}{_instruction(one, operands, names)}")
    return "\n".join([*lines, "}"])


def _instruction(message: Message, operands: dict[int, str], names: dict[int, str]) -> str:
    opcode = message.text(2)
    if opcode == "parameter":
        inside = str(message.number(9))
    elif opcode == "constant":
        inside = _literal(message.message(8))
    else:
        inside = ", ".join(f"%{operands.get(i, i)}" for i in message.ints(36))
    head = f"%{message.text(1)} = {_shape_of(message)} {opcode}({inside})"
    return ", ".join([head, *_attributes(message, opcode, names)])


def _attributes(message: Message, opcode: str, names: dict[int, str]) -> Iterator[str]:
    if 14 in message:
        yield f"dimensions={{{','.join(map(str, message.ints(14)))}}}"
    if opcode == "get-tuple-element":
        yield f"index={message.number(13)}"
    for number, name in ((63, "direction"), (11, "kind")):
        if message.text(number):
            yield f"{name}={message.text(number)}"
    if 28 in message and message.text(28):
        yield f'custom_call_target="{message.text(28)}"'
    called = [f"%{names.get(i, i)}" for i in message.ints(38)]
    if opcode == "while" and len(called) == 2:
        yield f"body={called[0]}"
        yield f"condition={called[1]}"
    elif called:
        joined = called[0] if len(called) == 1 else f"{{{', '.join(called)}}}"
        yield f"{_CALLS.get(opcode, 'to_apply')}={joined}"


def _shape_of(instruction: Message) -> str:
    return _shape(instruction.message(3))


def _shape(message: Message) -> str:
    kind = message.number(2)
    if kind == _TUPLE:
        return f"({', '.join(_shape(one) for one in message.messages(4))})"
    dims = ",".join(map(str, message.ints(3)))
    layout = message.message(5).ints(1)
    order = f"{{{','.join(map(str, layout))}}}" if layout else ""
    name = ELEMENT_TYPE_NAMES[kind] if kind < len(ELEMENT_TYPE_NAMES) else kind
    return f"{name}[{dims}]{order}"


def _literal(message: Message) -> str:
    """Return the value of a literal with one element; of others, that there is one."""
    if 2 in message and len(values := message.ints(2)) == 1:
        return "true" if values[0] else "false"
    for number, code in _LITERALS.items():
        if number not in message:
            continue
        if code in "iqIQ":
            values = message.ints(number)
        else:
            data = b"".join(message.parts(number))
            values = list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
        if len(values) == 1:
            return f"{values[0]:g}" if code in "fd" else str(values[0])
    return "..."
