"""Words of messages: an exception's own, and those for a value of a type that cannot be used."""

from __future__ import annotations

__all__ = ["kind_of", "words"]

_OWN = ("builtins", "__main__", "devrt", "numpy")


def words(error: BaseException) -> str:
    """Return an exception's message, whatever its class makes of that."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  plugin code: an exception of its own may not even print
        return "(its message cannot be shown)"


def kind_of(value: object) -> str:
    """Return a value's type as messages name it: with the library that it is of, where it is one's.

    Other libraries have devices, meshes and shardings too, under the same names.
    """
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library in _OWN:
        return kind.__name__
    library = "jax" if library == "jaxlib" else library
    return f"{kind.__name__}, which is {library}'s and not devrt's"
