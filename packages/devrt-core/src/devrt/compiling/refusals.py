"""Programs that no client runs, and what to do about those that a compiler refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from devrt.compiling.plain_constants import with_plain_constants
from devrt.compiling.program import Program
from devrt.errors import DevrtError, InvalidArgumentError, StatusCode, UnimplementedError

__all__ = ["check", "compile_explained", "custom_calls_explained", "explain"]

Made = TypeVar("Made")

_READS = re.compile(r"\n[^\n]*Failed to parse using StableHLO v([\d.]+)[^\n]*")
_WROTE = re.compile(r"produced by: StableHLO_v([\d.]+)")
_DYNAMIC = re.compile(
    r"'stablehlo\.(?:real_)?dynamic_\w+' op can't be translated|Unbounded dynamism"
)
_CUT = re.compile(r"attempting to parse \d+ bytes when only \d+ remain")
_REFUSALS = (StatusCode.UNKNOWN, StatusCode.INVALID_ARGUMENT)  # the parser's have no code of theirs
_UNANSWERED = re.compile(
    r"(?:No FFI handler registered for|No registered implementation for untyped custom call to) "
    r"(\S+)"
)
_WORDS = (b"func", b"module")  # one of which every program in text has
_POSITION = re.compile(r"(?<!\S)-:(\d+):(\d+): error")
_WORD = re.compile(r"[%@#!^]?[\w.$-]+|\S")
_LONGEST = 80  # characters of a line in a message
_NO_PROGRAM = re.compile(r"-:\d+:\d+: error: custom op '\w+' is unknown")


def check(program: Program, operation: str) -> None:
    """Refuse a program that no client can run to its end.

    Parameters
    ----------
    program
        The program.
    operation
        What the error names.

    Raises
    ------
    InvalidArgumentError
        If it is empty, or neither text nor bytecode. If a function has no body, or calls itself,
        or brackets are nested too deep: compilers end the process on those.
    UnimplementedError
        If it waits for the host, with infeed or outfeed: such a program would never end. If it
        takes or gives a tuple, which no buffer is: calls of such programs end the process. The
        message has a text's line.
    """
    _check_form(program, operation)
    facts = program.facts
    problem = facts.problem()
    if problem:
        msg = f"{operation} failed: {problem}, and compilers end the process on that."
        raise InvalidArgumentError(msg, operation=operation)
    if facts.feed is not None:
        name, at = facts.feed
        msg = (
            f"{program.location_of(at)}: {name} exchanges data with the host while the program "
            "runs, and nothing here does that: the program would never end. Pass the data as "
            "arguments and results, or through a custom call."
        )
        raise UnimplementedError(msg, operation=operation)
    main = facts.main
    if main is not None and main.has_tuples:
        msg = (
            f"{program.location_of(main.at)}: function @main takes or gives a tuple, and buffers "
            "hold arrays. Export the program with the tuple's elements as arguments and results."
        )
        raise UnimplementedError(msg, operation=operation)


def _check_form(program: Program, operation: str) -> None:
    if not program or program.isspace():
        msg = "the program is empty. Give StableHLO, as text or bytecode."
        raise InvalidArgumentError(msg, operation=operation)
    if program.is_bytecode:
        return
    is_text, zero = any(program.find(word) >= 0 for word in _WORDS), program.find(b"\0")
    if is_text and zero >= 0:
        msg = (
            f"{program.location_of(zero)}: a program's text has no zero byte, and byte {zero} of "
            "this one is zero. Remove it, or export the program again."
        )
        raise InvalidArgumentError(msg, operation=operation)
    if not is_text:
        msg = (
            "a program is StableHLO, as text or as MLIR bytecode, and this is neither: "
            f"it begins with {bytes(program[:16])!r}. Export it again."
        )
        raise InvalidArgumentError(msg, operation=operation)


def compile_explained(program: Program, compile: Callable[[Program], Made]) -> Made:
    """Compile a program, in a form that compilers take.

    Constants are written as compilers read them; where an older compiler lacks a name that has an
    equal, that is used.

    Raises
    ------
    InvalidArgumentError
        If the compiler refuses the program; with its words, and what to do.
    """
    plain = with_plain_constants(program)
    try:
        return compile(plain)
    except DevrtError as error:
        if error.code not in _REFUSALS:
            raise
        older = _for_older_readers(program, error.message)
        if older is None:
            message = explain(error.message, plain)
            raise InvalidArgumentError(message, code=error.code, **error.data) from error
    return compile_explained(older, compile)


@contextmanager
def custom_calls_explained(platform: str, known: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn a compiler's error on a custom call that nobody answers into one that says what to do.

    Parameters
    ----------
    platform
        The platform, for the error.
    known
        Gives a sentence on the custom calls that there are.

    Raises
    ------
    UnimplementedError
        If a custom call is not registered.
    """
    try:
        yield
    except DevrtError as error:
        found = _UNANSWERED.search(error.message)
        if found is None:
            raise
        head, name = "the program makes the custom call", found.group(1)
        if "callback" in name:
            msg = (
                f"{head} {name!r}, which runs a Python function of the process that exported it. "
                "Export the program without callbacks, or let it call a function of this process: "
                "client.register_custom_call."
            )
        else:
            msg = (
                f"{head} {name!r}, which nothing on the {platform} platform answers. "
                f"{f'{known()} ' if known is not None else ''}Export the program for this "
                "platform or without this call, or register what answers it: "
                "client.register_custom_call."
            )
        operation = error.data.get("operation", "compile_and_load")
        raise UnimplementedError(msg, operation=operation, platform=platform) from error


def _for_older_readers(program: Program, refusal: str) -> Program | None:
    """Return bytecode with an operation under the name that a refusing compiler knows.

    Exporters write versions of StableHLO that are months old, and a compiler may be older still.
    ``composite_v2``, what jax writes for ``top_k`` or ``arcsin``, is ``composite_v1`` with regions
    that may be there: without any, which the compiler checks, both are encoded alike.
    """
    if "vhlo.composite_v2" not in refusal or program.find(b"\0composite_v2\0") < 0:
        return None
    return Program(program.replace(b"\0composite_v2\0", b"\0composite_v1\0"))


def explain(message: str, program: Program) -> str:
    """Return a compiler's refusal, with what to do about it.

    Parameters
    ----------
    message
        The compiler's words.
    program
        The program.

    Returns
    -------
    str
        The words without the guess that the program may be too new where it is text, since nothing
        in text says so; and a last line of advice where there is any.
    """
    main = program.facts.main
    if main is not None and main.symbolic is not None and _DYNAMIC.search(message):
        number, sizes = main.symbolic
        return (
            f"{message.partition(':')[0]}: the program takes argument {number} of the symbolic "
            f"shape ({sizes}), and compilers take fixed ones. Export it for the sizes that it runs "
            "with, once for each: with numbers in place of jax.export.symbolic_shape, or of a "
            "dynamic dimension of torch.export."
        )
    reads = _READS.search(message)
    if reads is not None and not program.is_bytecode:
        message = message.replace(reads.group(), "")
    advice = _advice(message, program, reads.group(1) if reads is not None else "")
    return "\n".join(filter(None, [message.rstrip(), _place(message, program), advice]))


def _place(message: str, program: Program) -> str:
    """Return what stands where a parser's message is about, which gives numbers only."""
    found = _POSITION.search(message)
    if found is None or program.is_bytecode:
        return ""
    number, column = map(int, found.groups())
    lines = program.decode(errors="replace").splitlines()
    if not 0 < number <= len(lines) or not 0 < column <= len(lines[number - 1]):
        return ""
    line = lines[number - 1]
    word = _WORD.match(line, column - 1)
    start = max(0, min(column - 1 - _LONGEST // 2, len(line) - _LONGEST))
    shown = line[start : start + _LONGEST].strip()
    return f"Line {number}, at {word.group()!r}: {shown}" if word else f"Line {number}: {shown}"


def _advice(message: str, program: Program, reads: str) -> str:
    if _CUT.search(message):
        return "The program's bytecode is cut short or damaged: copy or export it again."
    wrote = _WROTE.search(message)
    if reads and program.is_bytecode and (wrote is not None or "'vhlo." in message):
        version = f" {wrote.group(1)}" if wrote is not None else ", a later version"
        return (
            f"The compiler reads StableHLO up to {reads}, and the program's bytecode was written "
            f"with{version}. Export it for the earlier version, give it as text, or use a later "
            "plugin."
        )
    if _NO_PROGRAM.search(message) and not program.is_bytecode:
        return "Is it StableHLO? Its operations have names such as stablehlo.add or func.func."
    if _DYNAMIC.search(message):
        return "The program has a symbolic dimension. Export it for the sizes that it runs with."
    return ""
