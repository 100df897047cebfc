"""PJRT plugins by name, as ``jaxlib.xla_client`` knows them, through the installed loader."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from devrt.contract import (
    Client,
    DistributedRuntimeClient,
    PjrtLoader,
    TransferServerInterfaceFactory,
    with_transfer_server,
)
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.records import ClientContext, Unavailable
from devrt.runtime.current import default_runtime

__all__ = [
    "initialize_pjrt_plugin",
    "load_pjrt_plugin_dynamically",
    "load_pjrt_plugin_with_c_api",
    "make_c_api_client",
    "make_c_api_device_topology",
    "pjrt_plugin_initialized",
    "pjrt_plugin_loaded",
]

Options = Mapping[str, str | int | list[int] | float | bool]


def load_pjrt_plugin_dynamically(plugin_name: str, library_path: str | os.PathLike[str]) -> object:
    """Open a PJRT library under a name. It is neither initialised nor ever closed.

    Parameters
    ----------
    plugin_name
        What it is called from now on.
    library_path
        Full path of the library.

    Returns
    -------
    object
        Its function table, in a capsule named ``pjrt_c_api``.

    Raises
    ------
    PluginLoadError
        If it cannot be opened or used; the message says why.
    PluginError
        If another library has the name.
    UnimplementedError
        If no loader of PJRT libraries is installed; the message names one.
    """
    loader = _loader("load_pjrt_plugin_dynamically")
    return loader.load(plugin_name, os.fspath(library_path))


def load_pjrt_plugin_with_c_api(plugin_name: str, c_api: object) -> None:
    """Take a PJRT plugin under a name that another runtime has opened.

    Parameters
    ----------
    plugin_name
        What it is called from now on.
    c_api
        Its function table, in a capsule named ``pjrt_c_api``.

    Raises
    ------
    PluginLoadError, PluginError, UnimplementedError
        As `load_pjrt_plugin_dynamically`.
    """
    _loader("load_pjrt_plugin_with_c_api").load(plugin_name, c_api)


def pjrt_plugin_loaded(plugin_name: str) -> bool:
    """Return whether a PJRT plugin of that name is open; False where no loader is installed."""
    loader = default_runtime().plugins.pjrt_loader()
    return not isinstance(loader, Unavailable) and loader.loaded(plugin_name) is not None


def pjrt_plugin_initialized(plugin_name: str) -> bool:
    """Return whether a PJRT plugin of that name is open and initialised."""
    loader = default_runtime().plugins.pjrt_loader()
    return not isinstance(loader, Unavailable) and loader.is_initialized(plugin_name)


def initialize_pjrt_plugin(plugin_name: str) -> None:
    """Initialise an open PJRT plugin. More than once does no harm.

    Raises
    ------
    InvalidArgumentError
        If none of that name is open.
    PluginLoadError
        If it fails, which is final for the process.
    UnimplementedError
        If no loader of PJRT libraries is installed; the message names one.
    """
    _loader("initialize_pjrt_plugin").initialize(plugin_name)


def make_c_api_client(
    plugin_name: str,
    options: Options | None = None,
    distributed_client: DistributedRuntimeClient | None = None,
    transfer_server_factory: TransferServerInterfaceFactory | None = None,
) -> Client:
    """Make a client of a PJRT plugin that is open, initialising the plugin if need be.

    Parameters
    ----------
    plugin_name
        The name that it was loaded under.
    options
        The plugin's own options. For several processes those that it names so, mostly ``node_id``
        and ``num_nodes``.
    distributed_client
        The connection to the cluster's key-value store, through which the plugin finds the other
        processes.
    transfer_server_factory
        Called with the client; `devrt.contract.transfer_server_of` returns what it makes. The
        server moves arrays through the host, whatever the plugin offers.

    Returns
    -------
    Client
        A client of the caller's own; ``close()`` gives its memory back.

    Raises
    ------
    InvalidArgumentError
        If no plugin of that name is open, or an option is of a wrong type.
    UnimplementedError
        If no loader of PJRT libraries is installed; the message names one.
    """
    operation = "make_c_api_client"
    loader = _loader(operation)
    capsule = loader.loaded(plugin_name)
    if capsule is None:
        msg = (
            f"{operation} failed: no PJRT plugin {plugin_name!r} is loaded. Open its library "
            "first: load_pjrt_plugin_dynamically(name, path)."
        )
        raise InvalidArgumentError(msg, plugin=plugin_name, operation=operation)
    given: dict[str, Any] = dict(options or {})
    if distributed_client is not None:
        given["distributed_client"] = distributed_client
    made = loader.make_client(capsule, plugin_name, given, ClientContext(options=given))
    return with_transfer_server(made, transfer_server_factory)


def make_c_api_device_topology(c_api: object, topology_name: str = "", **kwargs: Any) -> Any:
    """Describe devices that need not be there.

    Parameters
    ----------
    c_api
        The plugin that describes them, in a capsule named ``pjrt_c_api``.
    topology_name
        What the plugin calls them.
    **kwargs
        Options of the plugin.

    Returns
    -------
    devrt.contract.Topology
        The description, which programs compile against.

    Raises
    ------
    InvalidArgumentError
        If the name or an option is not valid.
    UnimplementedError
        If the plugin describes no devices, or no loader of PJRT libraries is installed.
    """
    operation = "make_c_api_device_topology"
    if isinstance(c_api, str | bytes | os.PathLike):
        msg = f"{operation} takes a capsule named 'pjrt_c_api', not the path {c_api!r}. Load it."
        raise InvalidTypeError(msg, operation=operation)
    return _loader(operation).make_topology(c_api, "", topology_name, kwargs)


def _loader(operation: str) -> PjrtLoader:
    loader = default_runtime().plugins.pjrt_loader()
    if isinstance(loader, Unavailable):
        msg = f"{operation} cannot be used: {loader.reason}. {loader.remedy}"
        raise UnimplementedError(msg, operation=operation)
    return loader
