"""What the CPU backend offers: one client factory and the memory kinds of the host."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from devrt.errors import DevrtWarning
from devrt.hookspecs import hookimpl
from devrt.records import (
    CACHE_OPTIONS,
    TRACEBACK_IN_BUFFERS,
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
_CAPSULE = "devrt_host_allocator"
_PASSED_ON = (
    "asynchronous",
    "node_id",
    "num_nodes",
    "distributed_client",
    "get_local_topology_timeout_minutes",
    "get_global_topology_timeout_minutes",
)
_OPTIONS = (
    OptionSpec(
        name="num_cpu_devices",
        type=int,
        default=1,
        minimum=1,
        help="Number of virtual CPU devices that this process gets.",
        flag="XLA_FLAGS --xla_force_host_platform_device_count",
    ),
    OptionSpec(
        name="cpu_memory_limit",
        type=int,
        minimum=1,
        maximum=2**63 - 1,
        help="Bytes that the buffers of the CPU client may take together (4GiB).",
        unit="bytes",
    ),
    OptionSpec(
        name="cpu_execution_timeout",
        type=float,
        default=600.0,
        minimum=0.001,
        help="Seconds that a call waits for a device on which no program ends.",
    ),
    OptionSpec(
        name="cpu_engine",
        type=str,
        help="The compiler of CPU programs: a wheel's name or a library's path; unset: "
        "the newest that is installed.",
    ),
    TRACEBACK_IN_BUFFERS,
    *CACHE_OPTIONS,
)
_BUILT_IN = ("device", "pinned_host", "unpinned_host", "huge_pages")


def _probe() -> ProbeResult:
    """Look for the native module's file without loading it."""
    folder = os.path.dirname(__file__)
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        if os.path.isfile(os.path.join(folder, _MODULE + suffix)):
            return Available()
    # An editable installation keeps the file elsewhere, behind an import hook.
    if importlib.util.find_spec(f"devrt_cpu.{_MODULE}") is not None:
        return Available("editable installation")
    return Unavailable(
        reason="the native module devrt_cpu._ext is not there",
        remedy="Install devrt-cpu again with pip, from a wheel or with a C++20 compiler.",
    )


def _make_client(context: ClientContext) -> Client:
    from devrt.contract import check_known, options_with_job
    from devrt.native.engines import remember_cache
    from devrt_cpu import make_cpu_client

    check_known(context.options, {*_PASSED_ON, *(spec.name for spec in _OPTIONS)}, "cpu")
    options = options_with_job(context.options, context.job)
    given = {name: options[name] for name in _PASSED_ON if name in options}
    client = make_cpu_client(
        num_devices=context.options.get("num_cpu_devices", 1),
        memory_kinds=tuple(_usable(context.memory_kinds)),
        memory_limit_bytes=context.options.get("cpu_memory_limit"),
        traceback_in_buffers=context.options.get("traceback_in_buffers", "sampled"),
        execution_timeout=context.options.get("cpu_execution_timeout", 600.0),
        cpu_engine=context.options.get("cpu_engine"),
        **given,
    )
    # Without what joins it to others, which may refer to the client.
    kept = {spec.name: context.options.get(spec.name, spec.default) for spec in CACHE_OPTIONS}
    remember_cache(client, kept)
    return cast("Client", client)  # registered as one when it was made


def _describe(options: Mapping[str, Any]) -> str:
    from devrt_cpu import _library

    return _library.describe(options.get("cpu_engine"))


def _usable(kinds: Iterable[MemoryKind]) -> Iterator[MemoryKind]:
    """Leave out kinds that another plugin adds and that cannot work, so that the rest does."""
    for kind in kinds:
        if kind.allocator is None and kind.kind in _BUILT_IN:
            yield kind
            continue
        allocator, trouble = _call_allocator(kind.allocator)
        if allocator is not None:
            yield _with_allocator(kind, allocator)
            continue
        warnings.warn(
            f"the memory kind {kind.kind!r} that an installed plugin adds to platform 'cpu' is "
            f"left out: {trouble}. The plugin's author must set MemoryKind.allocator to a function "
            f"that returns a {_CAPSULE!r} capsule.",
            DevrtWarning,
            stacklevel=2,
        )


def _with_allocator(kind: MemoryKind, allocator: Callable[[], object]) -> MemoryKind:
    # Not `dataclasses.replace`: its module would take a good part of a start.
    fields: Any = type(kind).__match_args__
    values: dict[str, Any] = {name: getattr(kind, name) for name in fields}
    return MemoryKind(**values | {"allocator": allocator})


def _call_allocator(
    allocator: Callable[[], object] | None,
) -> tuple[Callable[[], object] | None, str]:
    """Return a function that gives the capsule again, or None and why there is none."""
    if allocator is None:
        return None, "it brings no allocator, and the cpu client knows none for it"
    try:
        capsule = allocator()
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        return None, f"its allocator failed with {type(error).__name__}: {error}"
    # As its text says it: ctypes could ask, and takes long to import. The client checks it again.
    is_capsule = type(capsule).__name__ == "PyCapsule" and f'"{_CAPSULE}"' in repr(capsule)
    if not is_capsule:
        return None, f"its allocator returned a value of type {type(capsule).__name__}"
    return lambda: capsule, ""


@hookimpl
def devrt_client_factories() -> Iterable[ClientFactory]:
    """Return the factory of the platform ``cpu``, which is always the last choice."""
    return [
        ClientFactory(
            factory=_make_client,
            probe=_probe,
            options=_OPTIONS,
            describe=_describe,
        )
    ]


@hookimpl
def devrt_memory_kinds() -> Iterable[MemoryKind]:
    """Return the kinds for which the client itself has allocators, so that none is requested."""
    return [
        MemoryKind(kind="device", description="The heap, in 64-byte lines."),
        MemoryKind(
            kind="pinned_host",
            description="Pages locked into RAM, as far as RLIMIT_MEMLOCK allows.",
        ),
        MemoryKind(kind="unpinned_host", description="The heap, pageable."),
        MemoryKind(
            kind="huge_pages",
            description="Pages of 2 MiB, as far as the kernel grants them.",
        ),
    ]
