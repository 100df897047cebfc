"""What a client can do, for callers that ask before they use it."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from devrt.contract.client import Client

__all__ = ["Capabilities"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a client can do. Each is a promise, both ways: what is claimed works.

    What is False or empty cannot be counted on: it is refused with a typed error, or not used.

    Attributes
    ----------
    dlpack : bool
        A buffer in a device's default memory is exported by ``__dlpack__``, and says where it lies
        by ``__dlpack_device__``. (Taking over what others export needs nothing of a client.)
    asynchronous : bool
        A large transfer or a program may still run when the call that started it has returned, and
        the caller goes on meanwhile. Without it every buffer is ready at once.
    donation : bool
        A program may take its arguments over: their buffers are deleted by the call, and results
        may lie in their memory. Without it the program is refused, or its arguments are copied.
    formats : tuple of str
        What `Client.compile_and_load` takes, here and now (``"stablehlo"``); empty if the client
        compiles nothing, also where its compiler is not installed.
    layouts : bool
        `Client.buffer_from_pyval` takes a ``layout``, so that `devrt.device_put` takes a `Format`
        with another order than the default one. Without it a layout is a TypeError or an
        UnimplementedError.
    streams : bool
        Devices have streams that other runtimes can work on:
        `Device.get_stream_for_external_ready_events` returns a handle, and ``__dlpack__`` takes
        the consumer's as ``stream``.
    collectives : bool
        The parts of a program that run on several devices of the client can exchange data
        (``all_reduce`` and its like). Without it a program that would is refused.
    programs_across_processes : bool
        One program may run on devices of several processes, each of which compiles it alike.
        Without it devrt has each process run a program of its own devices.
    custom_calls : bool
        `Client.register_custom_call` takes functions of Python and native ones.
    calls_on_host : bool
        Those functions get the host's memory even where the devices' memory is not: programs run on
        the host, as those of simulated devices do.
    """

    dlpack: bool = False
    asynchronous: bool = False
    donation: bool = False
    formats: tuple[str, ...] = ()
    layouts: bool = False
    streams: bool = False
    collectives: bool = False
    programs_across_processes: bool = False
    custom_calls: bool = False
    calls_on_host: bool = False

    @classmethod
    def of(cls, client: Client, **known: Any) -> Capabilities:
        """Return what a client shows of itself, with what is ``known`` in its place.

        What cannot be seen of a client without a program is False until it says so:
        ``asynchronous``, ``donation``, ``collectives``, ``programs_across_processes`` and
        ``calls_on_host``.

        Parameters
        ----------
        client
            The client, whose first device gets a buffer of one element.
        **known
            Attributes by name, as the client knows them: ``Capabilities.of(self, donation=True)``.
        """
        looks: dict[str, Callable[[Client], Any]] = {
            "dlpack": _exports,
            "formats": lambda client: tuple(client.program_formats),
            "layouts": _takes_layouts,
            "streams": _has_streams,
            "custom_calls": _takes_custom_calls,
        }
        seen = {name: look(client) for name, look in looks.items() if name not in known}
        return cls(**seen, **known)


def _exports(client: Client) -> bool:
    import numpy as np

    from devrt.errors import UnimplementedError

    buffer = client.buffer_from_pyval(np.zeros((), np.int32))
    try:
        buffer.__dlpack_device__()
        buffer.__dlpack__()
    except (UnimplementedError, BufferError):  # devrt's word for it, and DLPack's
        return False
    finally:
        buffer.delete()
    return True


def _takes_layouts(client: Client) -> bool:
    try:
        return "layout" in inspect.signature(client.buffer_from_pyval).parameters
    except ValueError:  # native, without a signature
        return False


def _has_streams(client: Client) -> bool:
    from devrt.errors import UnimplementedError

    try:
        client.local_devices()[0].get_stream_for_external_ready_events()
    except UnimplementedError:
        return False
    return True


def _takes_custom_calls(client: Client) -> bool:
    # The default refuses them; known by its module, as importing that would be a circle.
    own = inspect.getattr_static(client, "register_custom_call", None)
    return getattr(own, "__module__", "") != f"{__package__}.client"
