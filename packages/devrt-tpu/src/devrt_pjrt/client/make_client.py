"""Making a client of a plugin: its options, and the cluster's key-value store."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import DevrtError
from devrt_pjrt._native import lib
from devrt_pjrt.client.client import PjrtClient
from devrt_pjrt.connection.connection import Connection
from devrt_pjrt.library.checks import options_of
from devrt_pjrt.library.library import Library, open_library
from devrt_pjrt.library.options import CLIENT_OPTIONS, check_client
from devrt_pjrt.library.values import NamedValues, check_types

if TYPE_CHECKING:
    from devrt.compiling.load_or_compile import CacheSource

__all__ = ["make_client", "try_library"]

lib.devrt_lend_buffer_protocol()  # before there is an array to show


def make_client(
    library: Library,
    platform: str,
    options: Mapping[str, Any] | None = None,
    cache: CacheSource | None = None,
) -> PjrtClient:
    """Make a client of a plugin, initialising the plugin if need be.

    Parameters
    ----------
    library
        The plugin.
    platform
        What users call the platform.
    options
        The plugin's own options: strings, ints, lists of ints, floats or bools; and
        ``distributed_client``, the connection to a cluster's key-value store (see
        `devrt.contract.DistributedRuntimeClient`), which the plugin asks through callbacks.
    cache
        Opens the folder of compiled programs (`devrt.compiling.cache`); None keeps none. Called
        once, when the client first compiles.

    Raises
    ------
    InvalidArgumentError
        If an option is of a wrong type.
    DevrtError
        If the plugin cannot make a client.
    """
    given = options_of(options)
    cluster = given.pop("distributed_client", None)
    given = dict(library.traits.adapt_options(given))
    types = {**CLIENT_OPTIONS, **library.traits.client_options}
    check_types(given, types, f"platform {platform!r}")
    check_client(given, library)
    values = NamedValues(given)
    args = library.api.new(
        "PJRT_Client_Create_Args", create_options=values.array, num_options=values.count
    )
    store = None
    if cluster is not None:
        from devrt_pjrt.client.store import Store, keep_store

        store = Store(cluster)
        lib.devrt_set_store(args, keep_store(store))
    library.initialize()
    try:
        library.api.call_with("PJRT_Client_Create", args)
        once = None if cache is None else functools.cache(cache)
        return PjrtClient(Connection(library, platform, args.client, given, store, once))
    except DevrtError:
        if store is not None:
            store.close()
        raise


def try_library(path: str, **options: Any) -> None:
    """Make a client in a child process: the library reads its environment, and may end it."""
    make_client(open_library("trial", path), "trial", options)
