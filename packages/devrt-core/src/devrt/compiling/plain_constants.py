"""Constants in forms that XLA's compilers do not read, written as those that they do.

torch-mlir puts tensors behind the program, as resources (``dense_resource``), and writes small ones
with the dialect ``arith``. StableHLO has ``stablehlo.constant`` with ``dense`` for both. A program
without them is handed on as it is, and none is parsed for this: the text is searched, of bytecode
the names of the sections are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from devrt.compiling.constant_data import check_size, damaged
from devrt.compiling.program import Program
from devrt.errors import InvalidArgumentError

__all__ = ["with_plain_constants"]

_NAME = rb'("(?:[^"\\]|\\.)*"|[\w$.\-]+)'
_TYPE = rb"(tensor<((?:[^<>]|<[^<>]*>)*)>)"
_RESOURCE = re.compile(rb"dense_resource<\s*" + _NAME + rb"\s*>\s*:\s*" + _TYPE)
_ARITH = re.compile(
    rb'(?<=[=\s])arith\.constant(?=\s+dense)|(?<=")arith\.constant(?="\(\)\s*<?\{\s*value\s*=\s*dense)'
)
_SECTION = re.compile(rb"dialect_resources\s*:\s*\{\s*builtin\s*:\s*\{")
_ENTRY = re.compile(rb"\s*,?\s*" + _NAME + rb'\s*:\s*"0x')
_ALIGNMENT = 8  # characters: four bytes before the data
_DIGITS = b"0123456789abcdefABCDEF"
_ALIAS = b"#devrt_constant_%d"


def with_plain_constants(program: Program) -> Program:
    """Return a program whose constants are written in the program itself.

    Raises
    ------
    InvalidArgumentError
        If a constant's data is not there, or is damaged.
    """
    if program.is_bytecode:
        from devrt.compiling.plain_constants_bytecode import rewritten

        found = rewritten(program)
        return program if found is None else Program(found)
    if program.find(b"dense_resource<") < 0 and program.find(b"arith.constant") < 0:
        return program
    return Program(_rewritten(program))


def _rewritten(code: bytes) -> bytes:
    """Return a text with each resource as an attribute's alias, before the first line.

    An alias is written once, however often it is used, and leaves the lines as they are numbered.
    """
    end = max(0, code.rfind(b"{-#"))
    data = dict(_resources(code, end)) if end else {}
    body = code[:end] if data else code
    aliases: dict[tuple[bytes, bytes], bytes] = {}

    def alias(found: re.Match[bytes]) -> bytes:
        key = found[1].strip(b'"'), found[2]
        if key[0] not in data:
            raise _missing(key[0])
        return aliases.setdefault(key, _ALIAS % len(aliases))

    body = _RESOURCE.sub(alias, _ARITH.sub(b"stablehlo.constant", body))
    head = (
        b"%b = %b : %b " % (name, _dense(key, code[slice(*data[key])], kind), kind)
        for (key, kind), name in aliases.items()
    )
    return b"".join([*head, body])


def _resources(code: bytes, at: int) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield the resources behind a text: names, and where the hexadecimal digits stand."""
    section = _SECTION.search(code, at)
    while section is not None:
        entry = _ENTRY.match(code, at if at > section.end() else section.end())
        if entry is None:
            return
        name, at = entry[1].strip(b'"'), code.find(b'"', entry.end())
        if at < 0:
            raise damaged(name, "is cut off: its data have no end")
        yield name, (entry.end() + _ALIGNMENT, at)
        at += 1


def _dense(name: bytes, digits: bytes, kind: bytes) -> bytes:
    """Return a constant's value, of its bytes in hexadecimal digits."""
    if len(digits) % 2 or digits.translate(None, _DIGITS):
        raise damaged(name, "has data that are no bytes in hexadecimal digits")
    tensor = kind[len(b"tensor<") : -1]
    check_size(name, len(digits) // 2, tensor)
    if not digits:
        return b"dense<>"
    *sizes, element = tensor.split(b"x")
    if element == b"i1":
        values = [b"true" if byte else b"false" for byte in bytes.fromhex(digits.decode())]
        return b"dense<%b>" % _nested(values, [int(size) for size in sizes])
    return b'dense<"0x%b">' % digits


def _nested(values: list[bytes], sizes: list[int]) -> bytes:
    """Return values in the brackets of a shape: in hexadecimal form booleans are packed."""
    for size in reversed(sizes):
        groups = range(0, len(values), size)
        values = [b"[" + b",".join(values[at : at + size]) + b"]" for at in groups]
    return b",".join(values)


def _missing(name: bytes) -> InvalidArgumentError:
    shown = name.decode(errors="replace")
    msg = (
        f"the program's constant dense_resource<{shown}> has no data: it was printed without it. "
        "Export the program whole: without a limit for large elements, or as bytecode."
    )
    return InvalidArgumentError(msg, operation="compile_and_load", resource=shown)
