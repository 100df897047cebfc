"""A compiled program as text, in the notation of HLO, for people to read.

Field numbers: ``xla/service/hlo.proto`` and ``xla/xla_data.proto``. The text leaves out what tells
little (metadata, schedules, the values of large constants); nothing reads it again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from devrt.wire.protobuf import fields, ints

__all__ = ["hlo_text"]

_TYPES = {
    **dict(
        enumerate("invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque".split())
    ),
    **dict(enumerate("c64 bf16 token c128 f8e5m2 f8e4m3fn s4 u4 f8e4m3b11fnuz".split(), 15)),
    **dict(enumerate("f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1".split(), 24)),
    **dict(enumerate("f4e2m1fn f8e8m0fnu".split(), 32)),
}
_TUPLE = 13
_LITERALS = {4: "i", 5: "q", 6: "I", 7: "Q", 8: "f", 9: "d"}
_CALLS = {"fusion": "calls", "while": "body", "conditional": "branches", "call": "to_apply"}

Message = dict[int, list[Any]]


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
    module = _message(_first(_message(program), 1, b""))
    computations = [_message(c) for c in module.get(3, [])]
    names = {_first(c, 5, 0): _text(c, 1) for c in computations}
    entry = _first(module, 6, 0)
    parts = [f"HloModule {_text(module, 1)}"]
    parts += [_computation(c, names, is_entry=_first(c, 5, 0) == entry) for c in computations]
    return "\n\n".join(parts) + "\n"


def _message(data: Any) -> Message:
    found: Message = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def _first(message: Message, number: int, default: Any) -> Any:
    return message.get(number, [default])[0]


def _text(message: Message, number: int) -> str:
    return bytes(_first(message, number, b"")).decode(errors="replace")


def _all_ints(message: Message, number: int) -> list[int]:
    return [one for value in message.get(number, []) for one in ints(value)]


def _computation(message: Message, names: dict[int, str], *, is_entry: bool) -> str:
    instructions = [_message(i) for i in message.get(2, [])]
    operands = {_first(i, 35, 0): _text(i, 1) for i in instructions}
    root = _first(message, 6, 0)
    parameters = sorted(
        (i for i in instructions if _text(i, 2) == "parameter"), key=lambda i: _first(i, 9, 0)
    )
    takes = ", ".join(f"{_text(i, 1)}: {_shape_of(i)}" for i in parameters)
    gives = next((_shape_of(i) for i in instructions if _first(i, 35, 0) == root), "()")
    lines = [f"{'ENTRY ' if is_entry else ''}%{_text(message, 1)} ({takes}) -> {gives} {{"]
    for one in instructions:
        mark = "ROOT " if _first(one, 35, 0) == root else ""
        lines.append(f"  {mark}{_instruction(one, operands, names)}")
    return "\n".join([*lines, "}"])


def _instruction(message: Message, operands: dict[int, str], names: dict[int, str]) -> str:
    opcode = _text(message, 2)
    if opcode == "parameter":
        inside = str(_first(message, 9, 0))
    elif opcode == "constant":
        inside = _literal(_message(_first(message, 8, b"")))
    else:
        inside = ", ".join(f"%{operands.get(i, i)}" for i in _all_ints(message, 36))
    head = f"%{_text(message, 1)} = {_shape_of(message)} {opcode}({inside})"
    return ", ".join([head, *_attributes(message, opcode, names)])


def _attributes(message: Message, opcode: str, names: dict[int, str]) -> Iterator[str]:
    if 14 in message:
        yield f"dimensions={{{','.join(map(str, _all_ints(message, 14)))}}}"
    if opcode == "get-tuple-element":
        yield f"index={_first(message, 13, 0)}"
    for number, name in ((63, "direction"), (11, "kind")):
        if _text(message, number):
            yield f"{name}={_text(message, number)}"
    if 28 in message and _text(message, 28):
        yield f'custom_call_target="{_text(message, 28)}"'
    called = [f"%{names.get(i, i)}" for i in _all_ints(message, 38)]
    if opcode == "while" and len(called) == 2:
        yield f"body={called[0]}"
        yield f"condition={called[1]}"
    elif called:
        joined = called[0] if len(called) == 1 else f"{{{', '.join(called)}}}"
        yield f"{_CALLS.get(opcode, 'to_apply')}={joined}"


def _shape_of(instruction: Message) -> str:
    return _shape(_message(_first(instruction, 3, b"")))


def _shape(message: Message) -> str:
    kind = _first(message, 2, 0)
    if kind == _TUPLE:
        return f"({', '.join(_shape(_message(one)) for one in message.get(4, []))})"
    dims = ",".join(map(str, _all_ints(message, 3)))
    layout = _all_ints(_message(_first(message, 5, b"")), 1)
    order = f"{{{','.join(map(str, layout))}}}" if layout else ""
    return f"{_TYPES.get(kind, kind)}[{dims}]{order}"


def _literal(message: Message) -> str:
    """Return the value of a literal with one element; of others, that there is one."""
    if 2 in message and len(values := _all_ints(message, 2)) == 1:
        return "true" if values[0] else "false"
    for number, code in _LITERALS.items():
        if number not in message:
            continue
        if code in "iqIQ":
            values = _all_ints(message, number)
        else:
            data = b"".join(bytes(part) for part in message[number])
            values = list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
        if len(values) == 1:
            return f"{values[0]:g}" if code in "fd" else str(values[0])
    return "..."
