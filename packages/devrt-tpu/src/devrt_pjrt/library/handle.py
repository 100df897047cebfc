"""What is true of every object that stands for one of a plugin's."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex

from devrt.errors import InvalidTypeError

__all__ = ["Handle"]


class Handle:
    """An object of a plugin's, which has one owner: a copy would free it a second time."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        msg = (
            f"{self!r} stands for an object of this process and cannot be copied or pickled. "
            "Pass it on as it is, or pass what it holds: numpy.asarray(buffer), or serialize()."
        )
        raise InvalidTypeError(msg, operation="copy")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__reduce_ex__(4)
