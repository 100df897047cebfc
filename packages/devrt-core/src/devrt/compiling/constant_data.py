"""How many bytes a constant of a program has, and the error for data that are not those."""

from __future__ import annotations

import math
import re

from devrt.errors import InvalidArgumentError

__all__ = ["check_size", "damaged"]

_TENSOR = re.compile(rb"((?:\d+x)*)(complex<)?(?:[us]?i|b?f)(\d+)\w*>?(?:,.*)?", re.DOTALL)


def check_size(name: bytes, given: int, tensor: bytes) -> None:
    """Raise unless a resource has as many bytes as a tensor's elements, each in whole bytes.

    A compiler takes the bytes of one element for those of all.

    Parameters
    ----------
    name
        The resource's name.
    given
        Its bytes.
    tensor
        The shape and type of elements as MLIR writes them, such as ``2x5xf32``. Of a type that is
        not known here the compiler has to say what it makes of the data.

    Raises
    ------
    InvalidArgumentError
        If there are other than that many.
    """
    found = _TENSOR.fullmatch(tensor)
    if found is None:
        return
    sizes = [int(size) for size in found[1].split(b"x")[:-1]]
    wanted = math.prod(sizes) * -(-int(found[3]) // 8) * (2 if found[2] else 1)
    if given != wanted:
        raise damaged(name, f"has {given} bytes, and tensor<{tensor.decode()}> takes {wanted}")


def damaged(name: bytes, why: str) -> InvalidArgumentError:
    """Return the error for a constant whose data are not what they must be."""
    shown = name.decode(errors="replace")
    msg = f"the program's constant dense_resource<{shown}> {why}. Export the program anew."
    return InvalidArgumentError(msg, operation="compile_and_load", resource=shown)
