"""Clients for GPUs: what the packages of the vendors have in common, in Python.

A vendor's package says in a `GpuPlatform` which module is its own; options, the environment's
variables and simulated devices are decided here, once.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from devrt import hardware
from devrt._support.record import record
from devrt.contract import options_with_job
from devrt.errors import (
    DevrtError,
    ForkedError,
    PluginContractError,
    StatusCode,
)
from devrt.native.gpu_given import (
    OF_JAX,
    allocation,
    checked_options,
    chosen_devices,
    nodes_of,
    partition_of,
)
from devrt.native.gpu_simulation import (
    MockTopology,
    is_simulated,
    mock_topology,
    simulated_devices,
    simulator_library,
)
from devrt.records import CACHE_OPTIONS, TRACEBACK_IN_BUFFERS, ClientContext, OptionSpec

if TYPE_CHECKING:
    from devrt.contract import Client, Device
    from devrt.native.nodes import Nodes

__all__ = ["GpuPlatform", "is_simulated", "simulated_links"]

_first_used: dict[str, int] = {}
"""The process in which a platform's driver was first used."""


@record(frozen=True, slots=True, kw_only=True)
class GpuPlatform:
    """A vendor's platform, and where its native half is.

    Attributes
    ----------
    name : str
        The platform, as users name it.
    module : str
        The module that ``devrt_add_gpu_module`` built (``"devrt_acme._ext"``). The simulator's
        library lies beside it.
    prefix : str
        Its ``CLASS_PREFIX``.
    visible_variable : str
        JAX's variable for the devices to use.
    hiding_variables : tuple of str
        The driver's own variables that hide devices, the one that acts first at the start.
    libraries : tuple of str
        Names of the driver's library, the newest first.
    folders : tuple of str
        Patterns of folders where it may lie beside those that the loader searches.
    compilers : tuple of str
        What to install for programs.
    wheels : tuple of tuple of str
        The wheels that have XLA's plugin, and the plugin's path in each; the preferred one first.
    engine : str
        Where the `devrt.native.gpu_engine.GpuEngine` is (``"devrt_acme._engine:ENGINE"``).
    shares_pool : bool
        Whether XLA's plugin takes its memory from the device's pool, as devrt does.
    kernels : str
        Where the vendor's `devrt.native.kernels.KernelFormats` are, imported when a kernel is first
        compiled (``"devrt_acme.kernels:FORMATS"``). Empty for clients that run none.
    collectives : str
        Where the vendor's `devrt.native.collectives.CollectiveLibrary` is, imported when a group is
        first made (``"devrt_acme.collectives:LIBRARY"``). Empty for clients that have none.
    """

    name: str
    module: str
    prefix: str
    visible_variable: str
    libraries: tuple[str, ...]
    hiding_variables: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    wheels: tuple[tuple[str, str], ...] = ()
    engine: str = ""
    shares_pool: bool = True
    kernels: str = ""
    collectives: str = ""

    @property
    def mock_variable(self) -> str:
        """The environment variable that requests simulated devices."""
        return f"DEVRT_{self.name.upper()}_MOCK"

    @property
    def engine_variable(self) -> str:
        """The environment variable that names another library to compile with."""
        return f"DEVRT_{self.name.upper()}_ENGINE"

    def options(self) -> tuple[OptionSpec, ...]:
        """Return the configuration options of the platform."""
        return (
            OptionSpec(
                name=f"{self.name}_mock",
                type=str,
                default="",
                help="Simulated devices in place of the machine's: how many (4), or how many on "
                "how many nodes (2x4). Nothing that runs on them says how fast a GPU is.",
            ),
            OptionSpec(
                name=f"{self.name}_visible_devices",
                type=str,
                default="",
                help="The driver's numbers of the devices to use, with commas; empty for all, or "
                f"for what {self.visible_variable} says.",
            ),
            *OF_JAX,
            TRACEBACK_IN_BUFFERS,
            *CACHE_OPTIONS,
        )

    def describe(self, options: Mapping[str, Any]) -> str:
        """Return what compiles programs, for reports; opens nothing."""
        from devrt.native import gpu_engine  # not at the top: a client's start has no use for it

        mock = mock_topology(options, self.name)
        return gpu_engine.describe(self, simulates=mock is not None)

    def make_client(self, context: ClientContext) -> Client:
        """Make a client, of simulated devices where the options say so."""
        given = options_with_job(context.options, context.job)
        options = checked_options(given, self.options(), self.name)
        self._check_process()
        driver = allocation(options)
        allowed, source = chosen_devices(options, self.name, self.visible_variable)
        native = self._native_module()
        mock = mock_topology(options, self.name)
        nodes = self._nodes(options, mock)
        driver["library"] = (
            simulator_library(self.simulator_path(native), self.name, mock.devices_each)
            if mock
            else self._driver_library()
        )
        try:
            numbers = simulated_devices(allowed, mock.devices_each, source) if mock else allowed
            if numbers is not None:
                driver |= {"allowed_devices": numbers, "allowed_devices_from": source}
            joined = _exchange(nodes, options, mock)
            client = _native_client(native, driver, joined, options, context.memory_kinds)
            if mock:
                self._check_simulated(client)
        except DevrtError as error:
            if allowed is None and error.code is not StatusCode.UNAVAILABLE:
                raise
            raise self._with_variables(error, simulates=mock is not None) from None
        _first_used.setdefault(self.name, os.getpid())
        self._remember(client, options, nodes)
        return client

    def _native_module(self) -> Any:
        """Return the native module, whose client has what the platform gives it."""
        # Not at the top: importing a plugin has no use for them.
        from devrt.native.classes import register
        from devrt.native.collectives import collectives_member
        from devrt.native.kernel_modules import compile_member

        native = register(self.module, self.prefix, engine=self.engine, capabilities=_capabilities)
        client_class = getattr(native, f"{self.prefix}Client")
        if self.kernels:
            client_class.compile = compile_member(self.kernels)
        if self.collectives:
            simulator = self.simulator_path(native)
            client_class.collectives = collectives_member(self.collectives, simulator)
        return native

    def _check_process(self) -> None:
        """Refuse a process that was forked from one whose driver was in use: it has none."""
        parent = _first_used.get(self.name, os.getpid())
        if parent != os.getpid():
            msg = (
                f"this process was forked from process {parent} after that had made a {self.name} "
                "client, and no driver of GPUs works in such a process. Start processes with "
                "multiprocessing's 'spawn' method, or fork before the first use of the platform."
            )
            raise ForkedError(msg, parent=parent, platforms=(self.name,))

    def _nodes(self, options: Mapping[str, Any], mock: MockTopology | None) -> Nodes:
        """Return what the processes of a job agree on, and which of them this is."""
        from devrt.native.nodes import Nodes  # not at the top: importing a plugin has no use for it

        node_id, num_nodes = nodes_of(options, mock.nodes if mock else 1)
        simulated = mock.partition_of(node_id) if mock and mock.nodes > 1 else None
        return Nodes(
            scope="gpu",
            platform=self.name,
            version=_version_of(self.module.partition(".")[0]),
            operation=f"make_{self.name}_client",
            node_id=node_id,
            num_nodes=num_nodes,
            partition=partition_of(options, simulated),
        )

    def _remember(self, client: Client, options: Mapping[str, Any], nodes: Nodes) -> None:
        """Keep what the client's programs, kernels and collectives look up later."""
        from devrt.native import engines, kernel_modules

        store = options.get("distributed_client")
        if store is not None:
            from devrt.native.engine_job import remember_engine_job
            from devrt.native.group_span import remember_job

            remember_job(client, store)
            remember_engine_job(client, store, nodes, options)
        # Without what joins it to others, which may refer to the client.
        cached = {spec.name: options.get(spec.name, spec.default) for spec in CACHE_OPTIONS}
        engines.remember_cache(client, cached)
        kernel_modules.remember_cache(client, options)

    def simulator_path(self, native: Any) -> str:
        """Return where the simulator's library is: beside the native module."""
        return os.path.join(os.path.dirname(native.__file__), f"libdevrt_{self.name}_simulator.so")

    def _check_simulated(self, client: Client) -> None:
        """Refuse a simulator whose devices would be taken for real ones, by their name."""
        devices = client.local_devices()
        if is_simulated(devices):
            return
        client.close()
        msg = (
            f"the simulator of {self.name} names a device {devices[0].device_kind!r}, without "
            "'(simulated)', by which simulated devices are known. Its author must add that to the "
            "names in models()."
        )
        raise PluginContractError(msg, phase="client", platform=self.name)

    def _with_variables(self, error: DevrtError, simulates: bool) -> DevrtError:
        """Return an error about missing devices, with the variables that are set and hide some."""
        hiding = () if simulates else self.hiding_variables
        own = f"DEVRT_{self.name.upper()}_VISIBLE_DEVICES"
        names = [name for name in (*hiding, own, self.visible_variable) if name in os.environ]
        if not names:
            return error
        listed = ", ".join(f"{name}={os.environ[name]!r}" for name in names)
        msg = f"{error.message} Variables that choose devices are set: {listed}."
        return type(error)(msg, code=error.code, **error.data)

    def _driver_library(self) -> str:
        """Return the path of the driver's library; empty where only the loader may know."""
        found = hardware.find_shared_library(*self.libraries, folders=self.folders)
        return "" if found is None else str(found)


def _version_of(package: str) -> str:
    """Return the version of a vendor's distribution, which may have another name than its package.

    Where neither says one, all processes say that.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(importlib.import_module(package), "__version__", "unknown"))


def _exchange(
    nodes: Nodes, options: Mapping[str, Any], mock: MockTopology | None
) -> dict[str, Any]:
    """Return what tells a client which processes there are, and with what devices."""
    from devrt.native.nodes import alike, exchange_for  # not at the top: few clients need them

    store = options.get("distributed_client")
    made = {
        "node_id": nodes.node_id,
        "num_nodes": nodes.num_nodes,
        "distributed_client": store,
        "exchange": exchange_for(store, nodes, options),
    }
    if store is None and nodes.partition is not None:
        each = range(nodes.num_nodes)
        if mock is not None and mock.nodes > 1:
            partitions = [mock.partition_of(node) for node in each]
        else:
            partitions = [nodes.partition for _ in each]
        made["exchange"] = alike(partitions)
    return made


def _native_client(
    native: Any,
    driver: dict[str, Any],
    nodes: dict[str, Any],
    options: Mapping[str, Any],
    memory_kinds: Any,
) -> Client:
    client = native.make_client(
        driver,
        memory_kinds=memory_kinds,
        traceback_in_buffers=options.get("traceback_in_buffers", "sampled"),
        **nodes,
    )
    return cast("Client", client)  # registered as one by `register`


def _capabilities(self: Any) -> Any:
    from devrt.native import gpu_engine  # not at the top: a client's start has no use for it

    return gpu_engine.capabilities(self)


def simulated_links(devices: Sequence[Device]) -> list[hardware.DeviceLink]:
    """Return how the simulator connects its devices.

    ``SIM`` where it gives two of them access to each other, else what is farthest: their PCI
    addresses are made up, and may be those of devices that this machine has.
    """
    return [
        hardware.DeviceLink(a.id, b.id, "SIM" if j in a.attributes["peers"] else "SYS")
        for i, a in enumerate(devices)
        for j, b in enumerate(devices)
        if i < j
    ]
