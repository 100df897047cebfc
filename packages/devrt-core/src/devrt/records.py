"""The records that a plugin's hooks return: data only, behaviour is the contract classes' part."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence

from devrt._support.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from devrt.contract import Client, Device, Job, Topology
    from devrt.errors import DevrtError
    from devrt.hardware import DeviceLink, DeviceReading

__all__ = [
    "CACHE_OPTIONS",
    "TRACEBACK_IN_BUFFERS",
    "Available",
    "ClientContext",
    "ClientFactory",
    "DoctorFinding",
    "MemoryKind",
    "OptionSpec",
    "PluginTraits",
    "ProbeResult",
    "TopologyFactory",
    "Unavailable",
]


@record(frozen=True, slots=True)
class Available:
    """A probe's answer: the platform can be used here.

    Attributes
    ----------
    detail : str
        What was found, in a few words (``"driver 580.159"``); may be empty.
    """

    detail: str = ""


@record(frozen=True, slots=True)
class Unavailable:
    """A probe's answer: the platform cannot be used here.

    Attributes
    ----------
    reason : str
        What is missing, in one clause.
    remedy : str
        What the user can do about it, as a sentence in the imperative.
    """

    reason: str
    remedy: str


ProbeResult = Available | Unavailable


@record(frozen=True, slots=True, kw_only=True)
class OptionSpec:
    """A configuration option that a plugin declares for its own platform.

    Attributes
    ----------
    name : str
        Name in ``devrt.config``; the environment variable is ``DEVRT_`` and the name in capitals.
    type : type
        ``int``, ``float``, ``bool`` or ``str``.
    default : object
        Value when nothing sets the option; None means unset.
    help : str
        One sentence for ``devrt config``.
    minimum : int or float, optional
        Least value accepted.
    maximum : int or float, optional
        Greatest value accepted.
    choices : tuple
        The values accepted, where they can be counted.
    flag : str
        A flag of another library that sets the option too, with the environment variable that
        holds such flags: ``"XLA_FLAGS --xla_some_number"``. The option's own variables win.
    unit : str
        ``"bytes"`` where the number is one of bytes: text may then have a unit (``"512MiB"``).
    """

    name: str
    type: type
    default: Any = None
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] = ()
    flag: str = ""
    unit: str = ""


TRACEBACK_IN_BUFFERS = OptionSpec(
    name="traceback_in_buffers",
    type=str,
    default="sampled",
    choices=("off", "sampled", "all"),
    help="For which buffers to note where the program made them; 'sampled' costs next to nothing.",
)
"""An option that backends share; a client factory that honours it lists it."""

CACHE_OPTIONS = (
    OptionSpec(
        name="enable_compilation_cache",
        type=bool,
        default=True,
        help="Whether compiled programs are put into the disk cache and taken from it.",
    ),
    OptionSpec(
        name="compilation_cache_dir",
        type=str,
        help="Where compiled programs are kept; unset: below the user's cache directory.",
    ),
    OptionSpec(
        name="compilation_cache_max_size",
        type=int,
        default=2 << 30,
        minimum=-1,
        maximum=2**62,
        help="Bytes that the disk cache may hold (as 512MiB, 10GiB); -1 for no bound.",
        unit="bytes",
    ),
    OptionSpec(
        name="persistent_cache_min_compile_time_secs",
        type=float,
        default=0.0,
        minimum=0.0,
        maximum=1e6,
        help="Seconds that compiling must take for a program to be kept in the disk cache.",
    ),
)
"""Options of the cache of compiled programs; a client factory whose clients use it lists them."""


@record(frozen=True, slots=True, kw_only=True)
class MemoryKind:
    """A memory kind that a plugin adds to a platform, its own or another plugin's.

    Attributes
    ----------
    platform : str
        The platform whose devices get the memory; left out, the one that the entry point names.
    kind : str
        The name that users write (``"pinned_host"``).
    description : str
        One sentence on where the bytes live.
    host_visible : bool
        Whether the host can read the memory through a pointer.
    allocator : callable, optional
        Returns a capsule named ``devrt_host_allocator`` (``devrt/memory/host_allocator.h`` of the
        native SDK) that the platform's client allocates from. None: the client has its own.
    """

    platform: str = ""
    kind: str
    description: str = ""
    host_visible: bool = True
    allocator: Callable[[], object] | None = None


@record(frozen=True, slots=True, kw_only=True)
class ClientContext:
    """What a client factory is called with.

    Attributes
    ----------
    options : Mapping[str, object]
        The value in force of every option that the record declared, read-only.
    memory_kinds : tuple of MemoryKind
        Every memory kind that some plugin brings for this platform, in registration order.
    job : Job, optional
        Whose processes' devices the client shall have; None where options say it.
    """

    options: Mapping[str, Any] = types.MappingProxyType({})
    memory_kinds: tuple[MemoryKind, ...] = ()
    job: Job | None = None


def _always() -> ProbeResult:
    return Available()


def _nothing(_: Mapping[str, Any]) -> str:
    return ""


def _unknown(_: Sequence[Device]) -> tuple[Any, ...]:
    return ()


def _set_ones(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


@record(frozen=True, slots=True, kw_only=True)
class ClientFactory:
    """How a plugin says that it can make a client for a platform.

    Attributes
    ----------
    platform : str
        The platform served: the entry point's name, which is it where this is left out.
    factory : callable, optional
        Takes a `ClientContext` and returns a `devrt.contract.Client` with at least one device:
        a new client each time. The process is the user's: signal handlers, ``sys.path``, the
        standard streams and the like stay as they are. Left out where there is a ``library``.
    library : str, os.PathLike or callable, optional
        In place of a factory: the full path of a library with the PJRT C API, which the installed
        PJRT loader makes clients of, and topologies. Or what returns the path, or `Unavailable`.
    create_options : callable
        Takes the values of ``options`` and returns what the library's client is created with:
        strings, integers, lists of integers, numbers and booleans. By default those that are set,
        by their own names.
    probe : callable
        Returns `Available` or `Unavailable` within milliseconds, opens no device and no context.
    aliases : tuple of str
        Other names that select the platform.
    priority : int
        The platform with the highest priority among those available is the default.
    experimental : bool
        Whether its users are warned once that results may be wrong or incomplete.
    fail_quietly : bool
        Whether a failure to initialise an implicit choice is kept for reports, without a warning.
    options : tuple of OptionSpec
        Configuration options that the platform adds.
    describe : callable
        Takes the options in force and returns what reports say of the backend, as a clause:
        ``"compiles with acme-cc 3.1"``. Called for reports only; opens no device.
    links : callable
        Takes local devices and returns `devrt.hardware.DeviceLink` records of pairs. Of a pair that
        it leaves out, ``devrt topo`` shows the way between their attributes ``pci_bus_id``.
    readings : callable
        Takes local devices and returns `devrt.hardware.DeviceReading` records, for ``devrt top``.
    machine : callable
        Returns such records of all the machine's devices, opening none; ``devrt top`` shows these.
    api_version : str, optional
        The version of the contract that the plugin was built against, as a literal (``"1.0"``).
        None: what its manifest says, and without one ``"1.0"``.
    simulates : bool
        Whether its client's option ``mock``, or that of the manifest's ``unless_set``, asks for
        simulated devices: whatever the probe and the manifest say of the machine.
    """

    platform: str = ""
    factory: Callable[[ClientContext], Client] | None = None
    library: str | os.PathLike[str] | Callable[[], str | os.PathLike[str] | Unavailable] | None = (
        None
    )
    create_options: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _set_ones
    probe: Callable[[], ProbeResult] = _always
    aliases: tuple[str, ...] = ()
    priority: int = 0
    experimental: bool = False
    fail_quietly: bool = False
    options: tuple[OptionSpec, ...] = ()
    describe: Callable[[Mapping[str, Any]], str] = _nothing
    links: Callable[[Sequence[Device]], Iterable[DeviceLink]] = _unknown
    readings: Callable[[Sequence[Device]], Iterable[DeviceReading]] = _unknown
    machine: Callable[[], Iterable[DeviceReading]] = tuple
    api_version: str | int | None = None
    simulates: bool = False


@record(frozen=True, slots=True, kw_only=True)
class TopologyFactory:
    """How a plugin says that it can describe devices that need not be present.

    Attributes
    ----------
    platform : str
        The platform described; left out, the one that the entry point names.
    factory : callable
        Called as ``factory(topology_name, **options)``; returns a `devrt.contract.Topology`.
    api_version : str, optional
        As in `ClientFactory`.
    """

    platform: str = ""
    factory: Callable[..., Topology]
    api_version: str | int | None = None


def _unchanged(value: Any) -> Any:
    return value


def _as_named(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return name, options


OptionTypes = Mapping[str, type | tuple[type, ...]]
_NONE: Mapping[str, Any] = types.MappingProxyType({})


@record(frozen=True, slots=True, kw_only=True)
class PluginTraits:
    """What the loader of PJRT libraries must know of one kind of them, and the C API does not say.

    A plugin brings it through the hook ``devrt_plugin_traits``. A library that no traits are about
    is used as the C API has it.

    Attributes
    ----------
    patterns : tuple of str
        Which libraries it is about, by the name that one is loaded under, or its file's.
    extensions : tuple of int
        The same by numbers of extensions of the C API that only these libraries have.
    platforms : tuple of str
        The same by a library's own word for its platform, known once it has a client.
    environment : callable
        Returns the variables to set before the library is initialised; those that are set stay.
    is_exclusive : bool
        Whether one process at a time can have the devices, so that no other one tries the library.
    trial_options : Mapping
        Options of a client that leaves as much of the devices as it can to others.
    client_options, topology_options : Mapping
        Types of options by name, where the library would end the process for a value of another.
    adapt_options : callable
        Takes a client's options, checks them, and returns those that the library is given.
    adapt_topology : callable
        Takes a topology's name and options, and returns those that the library is given.
    compiler_flags : callable
        Returns compile options of XLA by name, for which the caller gives no value.
    compiler_variables : tuple of str
        Environment variables that change what the compiler makes, beside ``XLA_FLAGS``.
    explain : callable
        Takes an error of the compiler, and returns it or one that says what to do.
    dlpack_device : int
        DLPack's type of the devices; 0 for none.
    dlpack_host_types : tuple of int
        DLPack's types of memory that the host can read too, such as page-locked memory.
    takes_layouts : bool
        Whether it puts elements in memory as a layout says; else as they come.
    aliases_sources : bool
        Whether it views host memory that is lent to it, where it begins at 64 bytes.
    runs_on_caller : bool
        Whether a program runs on the thread that starts it, as on the host's processors.
    """

    patterns: tuple[str, ...] = ()
    extensions: tuple[int, ...] = ()
    platforms: tuple[str, ...] = ()
    environment: Callable[[], Mapping[str, str]] = dict
    is_exclusive: bool = False
    trial_options: Mapping[str, Any] = _NONE
    client_options: OptionTypes = _NONE
    topology_options: OptionTypes = _NONE
    adapt_options: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _unchanged
    adapt_topology: Callable[[str, Mapping[str, Any]], tuple[str, Mapping[str, Any]]] = _as_named
    compiler_flags: Callable[[], Mapping[str, str | bool]] = dict
    compiler_variables: tuple[str, ...] = ()
    explain: Callable[[DevrtError], DevrtError] = _unchanged
    dlpack_device: int = 0
    dlpack_host_types: tuple[int, ...] = ()
    takes_layouts: bool = True
    aliases_sources: bool = False
    runs_on_caller: bool = False


@record(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """Something that a plugin has to say of this machine when `devrt doctor` asks it.

    Attributes
    ----------
    code : str
        What it is, in small letters, digits and hyphens (``"driver-old"``); stays the same from
        version to version. It is shown behind the distribution's name (``"acme/driver-old"``).
    message : str
        What was found, as a sentence.
    remedy : str
        What to do about it, as a sentence in the imperative.
    severity : str
        ``"error"``: something does not work; ``"warning"``: something to look at; ``"info"``.
    command : str
        A command to type, where there is one.
    api_version : str, optional
        The version of the contract that the plugin was built against, as a literal (``"1.0"``).
        None: what its manifest says, and without one ``"1.0"``.
    """

    code: str
    message: str
    remedy: str = ""
    severity: str = "warning"
    command: str = ""
    api_version: str | int | None = None
