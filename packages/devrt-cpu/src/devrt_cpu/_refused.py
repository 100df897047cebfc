"""Programs that this version of the compiler ends the process on, told apart before."""

from __future__ import annotations

import re

from devrt._stablehlo import is_bytecode
from devrt._stablehlo_functions import problem_of
from devrt.errors import InvalidArgumentError, UnimplementedError

__all__ = ["check"]

_NO_TYPE = re.compile(rb"f6E[23]M[23]FN\b")
_BITCAST = re.compile(rb"bitcast_convert\b[^\n]*tensor<(?:\d+x)*i1>")


def check(code: bytes) -> None:
    """Refuse a program, as text, that the compiler would abort on.

    Raises
    ------
    UnimplementedError
        If it has such a line; the message has its number.
    InvalidArgumentError
        If a function has no body, or calls itself.
    """
    if is_bytecode(code):  # not known without the types of each operation
        return
    problem = problem_of(code)
    if problem:
        msg = f"compile_and_load failed: {problem}, and the compiler ends the process on that."
        raise InvalidArgumentError(msg, operation="compile_and_load")
    for pattern, what in (
        (_NO_TYPE, "the 6-bit floating-point types"),
        (_BITCAST, "bitcast_convert of booleans"),
    ):
        found = pattern.search(code)
        if found is not None:
            line = code.count(b"\n", 0, found.start()) + 1
            msg = (
                f"line {line}: the compiler for the CPU does not have {what}. "
                "Convert to another type first, or compile for another platform."
            )
            raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")
