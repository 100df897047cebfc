"""A StableHLO program, read once for everyone who decides about it."""

from __future__ import annotations

import functools
from typing import Self

from devrt.compiling.program_facts import DONATES, ProgramFacts
from devrt.errors import InvalidTypeError

__all__ = ["Program"]

_MAGIC = b"ML\xefR"


class Program(bytes):
    """A StableHLO program: its code, and what can be seen of it without a compiler.

    It is its code, text or portable bytecode, so that every backend that takes bytes takes one.
    `of` makes one, and returns a program as it is: what was read of it is not read again.
    """

    def __new__(cls, source: object = b"", operation: str = "compile_and_load") -> Self:
        """Make a program, as `of` does."""
        if isinstance(source, str):
            source = _encoded(source, operation)
        if not isinstance(source, bytes | bytearray | memoryview):
            msg = (
                "a program is StableHLO, as text (str) or as bytecode (bytes), not of type "
                f"{type(source).__name__}."
            )
            raise InvalidTypeError(msg, operation=operation)
        return super().__new__(cls, source)

    @classmethod
    def of(cls, source: object, operation: str = "compile_and_load") -> Program:
        """Make a program of what a user gives.

        Parameters
        ----------
        source
            StableHLO as text (str), as text or bytecode in bytes, or a program.
        operation
            What errors name.

        Raises
        ------
        InvalidTypeError
            If it is of another type, or text with half a character. Whether it is a program, and
            one that can run, `devrt.compiling.refusals` says.
        """
        return source if isinstance(source, cls) else cls(source, operation)

    @property
    def is_bytecode(self) -> bool:
        """Whether it is MLIR bytecode rather than text."""
        return self.startswith(_MAGIC)

    @functools.cached_property
    def facts(self) -> ProgramFacts:
        """What is read of it, at the first use; what cannot be read is the compiler's to refuse."""
        if self.is_bytecode:
            from devrt.compiling.bytecode import read_bytecode

            return read_bytecode(self)
        from devrt.compiling.text import read_text

        return read_text(self)

    @property
    def donated(self) -> tuple[int, ...] | None:
        """The parameters, by number, whose memory it may take over; None where that is unknown."""
        if not self.facts.is_whole:
            return None if any(self.find(word) >= 0 for word in DONATES) else ()
        return self.facts.main.donated if self.facts.main is not None else ()

    def location_of(self, at: int) -> str:
        """Return where something stands, as errors name it: the line in text."""
        if self.is_bytecode:
            return "the program's bytecode"
        line = self.count(b"\n", 0, at) + 1
        return f"line {line}"

    def __repr__(self) -> str:
        form = "bytecode" if self.is_bytecode else "text"
        return f"Program({form} of {len(self)} bytes)"

    __str__ = __repr__


def _encoded(text: str, operation: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        msg = f"the program's text cannot be written as UTF-8 ({error.reason})."
        raise InvalidTypeError(msg, operation=operation) from error
