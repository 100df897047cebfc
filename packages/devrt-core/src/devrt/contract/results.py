"""Whether what a client or a buffer returned is what was requested, and whose it is if not."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    import numpy as np

    from devrt.contract.buffer import Buffer
    from devrt.contract.client import Client
    from devrt.errors import PluginContractError

    class Origin(Protocol):
        """A plugin, as far as errors tell of it."""

        @property
        def platform(self) -> str: ...
        @property
        def distribution(self) -> str: ...

        def facts(self) -> dict[str, Any]: ...


__all__ = ["ORIGINS", "checked_array", "not_as_requested", "package_of", "wrong_result"]

ORIGINS: dict[str, Origin] = {}
"""The plugin of each package that clients' classes come from."""


def package_of(module: object) -> str:
    """Return the top-level package of a module, given by name."""
    return str(module).partition(".")[0]


def wrong_result(client: Client, operation: str, what: str) -> PluginContractError:
    """Return the error for a result that is not what was requested; ``what`` was returned."""
    from devrt.errors import PluginContractError  # only where something is wrong

    ref = ORIGINS.get(package_of(type(client).__module__))
    facts = {} if ref is None else ref.facts()
    who = f"the {client.platform} client" if ref is None else f"plugin {ref}"
    msg = f"{who} breaks the plugin contract: {operation} returned {what}. Report it to its author."
    return PluginContractError(msg, phase="call", operation=operation, **facts)


def checked_array(buffer: Buffer, host: Any = None) -> np.ndarray[Any, Any]:
    """Return what a buffer's ``__array__`` gives, if that has the buffer's shape and dtype.

    ``host`` is what it gave, where it was called already. Raises `PluginContractError` if it is no
    array, or not of that shape and dtype.
    """
    import numpy as np

    host = buffer.__array__() if host is None else host
    if not isinstance(host, np.ndarray):
        raise wrong_result(buffer.device.client, "__array__", f"a {type(host).__name__}, no array")
    if host.shape != buffer.shape or host.dtype != buffer.dtype:
        what = f"{host.dtype}{list(host.shape)} for {buffer.dtype}{list(buffer.shape)}"
        raise wrong_result(buffer.device.client, "__array__", what)
    return host


def not_as_requested(
    made: Any, target: Any, spec: tuple[tuple[int, ...], Any] | None = None
) -> str:
    """Return in what the result for a target is not what was requested; empty if in nothing.

    ``spec`` is the shape and dtype that it is to have; None where they are not known.
    """
    from devrt.contract.buffer import Buffer

    if not isinstance(made, Buffer):
        return f"{_kind(made)}, which is no devrt.contract.Buffer"
    if spec is not None and (
        tuple(made.shape) != tuple(spec[0]) or made.dtype != spec[1].newbyteorder("=")
    ):
        requested = f"{spec[1]}{list(spec[0])}"
        return f"{made.dtype}{list(made.shape)}, and {requested} was requested"
    is_memory = hasattr(target, "addressable_by_devices")
    where = target.addressable_by_devices() if is_memory else (target,)
    if not any(made.device is device for device in where):
        return f"a buffer on {made.device}, and one on {where[0]} was requested"
    return ""


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
