"""What the CPU backend offers: one client factory and the memory kinds of the host."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from devrt.errors import DevrtWarning
from devrt.hookspecs import hookimpl
from devrt.records import (
    Available,
    ClientContext,
    ClientFactory,
    MemoryKind,
    OptionSpec,
    ProbeResult,
    Unavailable,
)

if TYPE_CHECKING:
    from devrt.contract import Client

__all__ = ["devrt_client_factories", "devrt_memory_kinds"]

_MODULE = "_ext"
_BUILT_IN = ("device", "pinned_host", "unpinned_host")


def _probe() -> ProbeResult:
    """Look for the native module's file without loading it."""
    folder = Path(__file__).parent
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if (folder / (_MODULE + suffix)).is_file():
            return Available()
    # An editable installation keeps the file elsewhere, behind an import hook.
    if importlib.util.find_spec(f"devrt_cpu.{_MODULE}") is not None:
        return Available("editable installation")
    return Unavailable(
        reason="the native module devrt_cpu._ext is not there",
        remedy="Install devrt-cpu again with pip, from a wheel or with a C++20 compiler.",
    )


def _make_client(context: ClientContext) -> Client:
    from devrt_cpu import make_cpu_client

    client = make_cpu_client(
        asynchronous=context.options.get("asynchronous", True),
        num_devices=context.options.get("num_cpu_devices", 1),
        memory_kinds=tuple(_usable(context.memory_kinds)),
    )
    return cast("Client", client)  # registered as one when it was made


def _usable(kinds: Iterable[MemoryKind]) -> Iterator[MemoryKind]:
    """Leave out kinds that another plugin adds and that cannot work, so that the rest does."""
    for kind in kinds:
        if kind.kind in _BUILT_IN or kind.allocator is not None:
            yield kind
            continue
        warnings.warn(
            f"the memory kind {kind.kind!r} that an installed plugin adds to platform 'cpu' is "
            "left out: it brings no allocator, and the cpu client knows none for it. The plugin's "
            "author must set MemoryKind.allocator.",
            DevrtWarning,
            stacklevel=2,
        )


@hookimpl
def devrt_client_factories() -> Iterable[ClientFactory]:
    """Return the factory of the platform ``cpu``, which is always the last choice."""
    return [
        ClientFactory(
            platform="cpu",
            priority=0,
            fail_quietly=False,
            factory=_make_client,
            probe=_probe,
            options=(
                OptionSpec(
                    name="num_cpu_devices",
                    type=int,
                    default=1,
                    minimum=1,
                    help="Number of virtual CPU devices that this process gets.",
                ),
            ),
        )
    ]


@hookimpl
def devrt_memory_kinds() -> Iterable[MemoryKind]:
    """Return the three kinds that every CPU device has; the client brings their allocators."""
    return [
        MemoryKind(platform="cpu", kind="device", description="The heap, in 64-byte lines."),
        MemoryKind(
            platform="cpu",
            kind="pinned_host",
            description="Pages locked into RAM, as far as RLIMIT_MEMLOCK allows.",
        ),
        MemoryKind(platform="cpu", kind="unpinned_host", description="The heap, pageable."),
    ]
