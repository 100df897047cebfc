"""Where in a program something was made."""

from __future__ import annotations

from devrt._support.record import record

__all__ = ["Frame", "Traceback"]


@record(frozen=True, slots=True)
class Frame:
    """One call.

    Attributes
    ----------
    file_name : str
        The file, as its code object names it.
    function_name : str
        The function's qualified name.
    function_start_line : int
        The line that the function begins at.
    line_num : int
        The line that was executed.
    """

    file_name: str
    function_name: str
    function_start_line: int
    line_num: int

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line_num} ({self.function_name})"


@record(frozen=True, slots=True)
class Traceback:
    """The calls at which a buffer was made, as many as the client notes.

    Attributes
    ----------
    frames : tuple of Frame
        The calls, the innermost first.
    """

    frames: tuple[Frame, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.frames))
