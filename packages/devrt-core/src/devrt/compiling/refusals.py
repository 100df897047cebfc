"""Programs that a compiler refuses, what to do about it, and those that it does not survive."""

from __future__ import annotations

import contextlib
import re
from typing import NoReturn

from devrt.compiling.program_facts import ProgramText
from devrt.compiling.program_text import read_text
from devrt.compiling.stablehlo import bytecode_operations, is_bytecode
from devrt.errors import InvalidArgumentError, UnimplementedError

__all__ = ["check", "check_for_host", "explain"]

_READS = re.compile(r"\n[^\n]*Failed to parse using StableHLO v([\d.]+)[^\n]*")
_WROTE = re.compile(r"produced by: StableHLO_v([\d.]+)")
_DYNAMIC = re.compile(r"'stablehlo\.(?:real_)?dynamic_\w+' op can't be translated")

_SIX_BITS = "the 6-bit floating-point types"
_BOOLEANS = "bitcast_convert of booleans"
_MISSING = {
    "six_bits": _SIX_BITS,
    "booleans": _BOOLEANS,
    "quantised": "quantised types",
    "tuples": "tuples as arguments of the program",
    "no_groups": "all_to_all without replica_groups",
}
_FEEDS = {f"{dialect}.{name}feed" for dialect in ("stablehlo", "mhlo") for name in ("in", "out")}


def check(code: bytes, operation: str) -> None:
    """Refuse a program that no client can run to its end.

    Parameters
    ----------
    code
        The program, text or bytecode.
    operation
        What the error names.

    Raises
    ------
    UnimplementedError
        If it waits for the host, with infeed or outfeed: such a program would never end. The
        message has a text's line.
    InvalidArgumentError
        If a function has no body, or calls itself: compilers end the process on those.
    """
    if is_bytecode(code):
        _check_bytecode(code, operation)
    else:
        _check_text(code, read_text(code), operation)


def check_for_host(code: bytes, operation: str) -> None:
    """Do as `check`, and refuse what the compiler for the host's processor ends the process on.

    Parameters
    ----------
    code
        The program, text or bytecode.
    operation
        What the error names.

    Raises
    ------
    UnimplementedError
        If it has a type, or an operation, that the compiler lacks; the message has a text's line.
    """
    if is_bytecode(code):
        _check_bytecode(code, operation)
        what = _missing_in_bytecode(code)
        if what:
            _refuse("the program's bytecode", what, operation)
        return
    text = read_text(code)
    _check_text(code, text, operation)
    for subject, what in _MISSING.items():
        if subject in text.first:
            _refuse(_line(code, text.first[subject]), what, operation)


def _check_text(code: bytes, text: ProgramText, operation: str) -> None:
    _check_functions(text, operation)
    if text.feed is not None:
        name, at = text.feed
        _refuse_feed(_line(code, at), name, operation)


def _check_functions(text: ProgramText, operation: str) -> None:
    problem = text.problem()
    if problem:
        msg = f"{operation} failed: {problem}, and compilers end the process on that."
        raise InvalidArgumentError(msg, operation=operation)


def _check_bytecode(code: bytes, operation: str) -> None:
    from devrt.compiling.bytecode_calls import functions

    text = ProgramText()
    with contextlib.suppress(ArithmeticError, LookupError, RecursionError, ValueError):
        text = functions(code)  # what cannot be read is the compiler's to refuse
    _check_functions(text, operation)
    if b"infeed" not in code and b"outfeed" not in code:
        return
    found = bytecode_operations(code) & _FEEDS
    if found:
        _refuse_feed("the program's bytecode", min(found), operation)


def _line(code: bytes, at: int) -> str:
    number = code.count(b"\n", 0, at) + 1
    return f"line {number}"


def _refuse_feed(where: str, name: str, operation: str) -> NoReturn:
    msg = (
        f"{where}: {name} exchanges data with the host while the program runs, and nothing here "
        "does that: the program would never end. Pass the data as arguments and results, or "
        "through a custom call."
    )
    raise UnimplementedError(msg, operation=operation)


def _refuse(where: str, what: str, operation: str) -> NoReturn:
    msg = (
        f"{where}: the compiler for the CPU does not have {what}. "
        "Write it in another way, or compile for another platform."
    )
    raise UnimplementedError(msg, operation=operation, platform="cpu")


def _missing_in_bytecode(code: bytes) -> str:
    """Return what a bytecode has that the compiler lacks; nothing of one that cannot be read."""
    from devrt.compiling.bytecode_types import has_six_bit_floats, makes_or_reads_booleans

    try:
        if has_six_bit_floats(code):
            return _SIX_BITS
        return _BOOLEANS if makes_or_reads_booleans(code, "bitcast_convert") else ""
    except (ArithmeticError, LookupError, ValueError, RecursionError):
        return ""


def explain(message: str, code: bytes) -> str:
    """Return a compiler's refusal, with what to do about it.

    Parameters
    ----------
    message
        The compiler's words.
    code
        The program.

    Returns
    -------
    str
        The words without the guess that the program may be too new where it is text, since nothing
        in text says so; and a last line of advice where there is any.
    """
    reads = _READS.search(message)
    if reads is not None and not is_bytecode(code):
        message = message.replace(reads.group(), "")
    advice = _advice(message, code, reads.group(1) if reads is not None else "")
    return message.rstrip() + (f"\n{advice}" if advice else "")


def _advice(message: str, code: bytes, reads: str) -> str:
    wrote = _WROTE.search(message)
    if reads and is_bytecode(code) and (wrote is not None or "'vhlo." in message):
        version = f" {wrote.group(1)}" if wrote is not None else ", a later version"
        return (
            f"The compiler reads StableHLO up to {reads}, and the program's bytecode was written "
            f"with{version}. Export it for the earlier version, give it as text, or use a later "
            "plugin."
        )
    if _DYNAMIC.search(message):
        return "The program has a symbolic dimension. Export it for the sizes that it runs with."
    if "Only dense elements attr are supported" in message:
        return (
            "The program holds constants as resources (dense_resource). Export them as ordinary "
            "constants, or as arguments."
        )
    return ""
