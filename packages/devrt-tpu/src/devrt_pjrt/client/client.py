"""The client of any PJRT plugin: devrt's whole contract over the C API."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from devrt.contract import (
    Buffer,
    Client,
    Device,
    HostBufferSemantics,
    LoadedExecutable,
    Memory,
)
from devrt.errors import DevrtError
from devrt_pjrt._native import lib
from devrt_pjrt.buffers.buffer import PjrtBuffer
from devrt_pjrt.buffers.put import Putter
from devrt_pjrt.client.inventory import Inventory
from devrt_pjrt.client.memory_report import heap_profile, with_report
from devrt_pjrt.library.apart import Speaker, begin_exit, end_on_demand, is_end_demanded
from devrt_pjrt.library.library import Library

if TYPE_CHECKING:
    import numpy as np

    from devrt.compiling.load_or_compile import CacheSource
    from devrt.layout import Layout, PjRtLayout
    from devrt_pjrt.buffers.transfer import TransferManager
    from devrt_pjrt.client.store import Store
    from devrt_pjrt.client.topology import PjrtTopology
    from devrt_pjrt.programs.executable import PjrtLoadedExecutable

__all__ = ["PjrtClient"]


class PjrtClient(Inventory, Client):
    """A live connection to a platform through a PJRT plugin; `make_client` makes one."""

    def __init__(
        self,
        library: Library,
        platform: str,
        pointer: Any,
        options: Mapping[str, Any] | None = None,
        store: Store | None = None,
        cache: CacheSource | None = None,
    ) -> None:
        super().__init__(library, platform, pointer, store)
        self.options = MappingProxyType(dict(options or {}))
        self._cache = cache
        self._executables: weakref.WeakValueDictionary[int, PjrtLoadedExecutable] = (
            weakref.WeakValueDictionary()
        )
        try:
            self._read()
        except DevrtError:
            lib.devrt_core_retire(self._core)  # the error's traceback would keep the client
            raise
        self._putter = Putter(self, self._api)
        _clients.add(self)

    # -- buffers ------------------------------------------------------------------------------

    def buffer_from_pyval(
        self,
        argument: Any,
        device: Device | Memory | None = None,
        force_copy: bool = False,
        host_buffer_semantics: int = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
        layout: Layout | PjRtLayout | str | None = None,
    ) -> PjrtBuffer:
        """Start the transfer of a host value to a device; see `devrt.contract.Client`.

        Zero-copy semantics are the plugin's to use: most alias memory on a 64-byte boundary.
        The elements lie as `get_default_layout` says, or in the order of ``layout``, a `Layout`, a
        `PjRtLayout` or the text of one; the plugin's refusal of one is raised.
        """
        try:
            place = self._places[device]
        except (KeyError, TypeError):  # a target that was not seen yet, or is none
            place = self._place(device, "buffer_from_pyval")
        semantics = 0 if force_copy else host_buffer_semantics
        if layout is not None:
            from devrt_pjrt.buffers.put_laid_out import put

            return put(self, argument, layout, place, semantics)
        return self._putter.put(argument, place, semantics)

    def buffer_from_dlpack(
        self, value: Any, device: Device | None = None, copy: bool | None = None
    ) -> PjrtBuffer:
        """Take a tensor of another library through DLPack, without a copy where that can be.

        Parameters
        ----------
        value
            An object with ``__dlpack__``, or a capsule.
        device
            The device that the tensor lies on, or goes to; the first one when omitted.
        copy
            True copies always, False never; None copies where the memory cannot be viewed.

        Raises
        ------
        InvalidArgumentError
            If it cannot be viewed and ``copy`` is False.
        """
        from devrt_pjrt.buffers import dlpack

        return dlpack.take(self, value, self._place(device, "buffer_from_dlpack"), copy)

    def create_buffers_for_async_host_to_device(
        self,
        specs: Sequence[tuple[tuple[int, ...], Any]],
        memory: Device | Memory | None = None,
        layouts: Sequence[Layout | PjRtLayout | str | None] | None = None,
    ) -> TransferManager:
        """Make buffers whose data is sent later, piece by piece.

        Parameters
        ----------
        specs
            Shape and dtype of each buffer.
        memory
            Where they go; the first device's default memory when omitted.
        layouts
            How each buffer lies there; None, for all or one, for as `get_default_layout` says.
        """
        from devrt_pjrt.buffers.transfer import TransferManager

        place = self._place(memory, "create_buffers_for_async_host_to_device")
        return TransferManager(self, specs, place, layouts)

    def get_default_layout(
        self, dtype: np.dtype[Any], shape: Sequence[int], device: Device | Memory | None = None
    ) -> PjRtLayout:
        """Return how an array of a dtype and shape lies on every device unless told otherwise."""
        from devrt.layout import PjRtLayout
        from devrt_pjrt.buffers.layout import default_layout

        return PjRtLayout(default_layout(self, dtype, shape))

    def live_buffers(self) -> list[Buffer]:
        """Return the buffers that are neither deleted nor collected, oldest first."""
        self._drain()
        # Weak references would cost every buffer more than a search costs who asks for this.
        found = {b._handle: b for b in gc.get_objects() if isinstance(b, PjrtBuffer)}
        ordered = (found.get(handle) for handle in list(self._live))
        return [b for b in ordered if b is not None and b._client is self and not b.is_deleted()]

    def heap_profile(self) -> bytes:
        """Return the live buffers as a gzipped pprof profile, by place where one was noted.

        The values are ``space`` (bytes) and ``objects`` (count), the labels ``device``, ``kind``
        and ``array``. Where it was made is noted of buffers from 1 MiB on.
        """
        return heap_profile(self)

    def _finish(self) -> None:
        """Wait at exit for what is known to run, whether it fails or not."""
        is_owed = any(manager.owes_data() for manager in self._managers)
        if not self._last_run or is_owed or self.is_closed or self._pid != os.getpid():
            return
        speaker = Speaker(self._what_runs)
        for buffer in self.live_buffers():
            while not buffer._is_settled(_SLICE_MS):  # type: ignore[attr-defined]
                if lib.devrt_core_is_stuck(self._core, 0):
                    return  # and it is not destroyed then
                speaker.speak()
        while self._calls:
            time.sleep(_SLICE_MS / 1000)
            speaker.speak()

    def _explained(self, error: DevrtError) -> DevrtError:
        return with_report(self, error)

    def _count(self, wanted: Callable[[PjrtBuffer], bool]) -> dict[str, int]:
        sizes = [b.nbytes for b in self.live_buffers() if wanted(b)]  # type: ignore[arg-type]
        return {
            "bytes_in_use": sum(sizes),
            "num_allocs": len(sizes),
            "largest_alloc_size": max(sizes, default=0),
        }

    # -- programs -----------------------------------------------------------------------------

    def compile_and_load(
        self, program: str | bytes, devices: Sequence[Device] | None = None, **options: Any
    ) -> PjrtLoadedExecutable:
        """Compile a StableHLO program and load it on devices.

        Parameters
        ----------
        program
            StableHLO as text or bytecode.
        devices
            The devices that it runs on; as many as the options say when omitted.
        **options
            See `devrt_pjrt.CompileOptions`, whose fields they are.
        """
        from devrt_pjrt.programs import compile as _compile

        return _compile.compile_and_load(self, program, devices, options)

    def compile(self, program: str | bytes, **options: Any) -> PjrtLoadedExecutable:
        """Compile a program for the client's first devices; see `compile_and_load`."""
        return self.compile_and_load(program, None, **options)

    def serialize_executable(self, executable: LoadedExecutable) -> bytes:
        """Return an executable as bytes, which `deserialize_executable` loads again."""
        return executable.serialize()

    def deserialize_executable(
        self, serialized: bytes, devices: Sequence[Device] | None = None, **options: Any
    ) -> PjrtLoadedExecutable:
        """Load an executable that was compiled earlier, perhaps on another machine.

        Parameters
        ----------
        serialized
            What `serialize_executable` gave.
        devices
            The devices that it runs on; those that it was compiled for when omitted.
        **options
            Fields of `devrt_pjrt.CompileOptions`, in place of those it was compiled with.
        """
        from devrt_pjrt.programs import compile as _compile

        return _compile.deserialize(self, serialized, devices, options)

    def register_custom_call(self, name: str, function: Any, *, kind: str = "host") -> None:
        """Let programs of this plugin call a function by a name, in every client of the process.

        Parameters
        ----------
        name
            The target that ``stablehlo.custom_call`` names; with ``api_version = 4 : i32``.
        function
            A callable; or native code, an XLA FFI handler (``devrt/pjrt/c_api/ffi.h`` of the native
            SDK), as an address, a capsule, or a function pointer of ctypes or cffi, which must
            stay valid until the process ends.
        kind
            ``"host"``: the callable gets a NumPy array of its own for each argument, and the
            call's attributes by keyword; it returns an array for each result, of its shape and
            dtype. ``"device"``: it gets a `DeviceCall` with the addresses, and the stream on a
            GPU. For native code the same.

        Raises
        ------
        UnimplementedError
            If the plugin takes no custom calls, or 256 callables are registered.
        PluginError
            If the name is taken; one callable may take another's place.

        Notes
        -----
        It is called on the plugin's threads, takes the GIL, and must not wait for work of the same
        client. What it raises becomes the error of the program's results. At the end of the
        interpreter calls are waited for, and then refused.
        """
        from devrt_pjrt.programs.custom_call import register_custom_call

        with self._using("register_custom_call"):
            register_custom_call(self._api, self.plugin_platform, name, function, kind)

    def live_executables(self) -> list[Any]:
        """Return the executables that are neither deleted nor collected, oldest first."""
        found = sorted(self._executables.items())
        return [executable for _, executable in found if not executable.is_deleted()]

    def topology(self) -> PjrtTopology:
        """Return a description of the client's devices, to compile against."""
        from devrt_pjrt.client.topology import PjrtTopology

        with self._using("topology"):
            args = self._api.call("PJRT_Client_TopologyDescription", client=self._pointer)
        return PjrtTopology(self._library, self._platform, args.topology, owner=self)

    def __enter__(self) -> PjrtClient:
        return self

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"PjrtClient({self._platform!r}, {len(self._devices)} devices{state})"


_SLICE_MS = 100
_clients: weakref.WeakSet[PjrtClient] = weakref.WeakSet()


def _finish_programs() -> None:
    """Wait for what runs when the interpreter exits, as plugins do in silence when they end."""
    begin_exit()
    for client in list(_clients):
        try:
            if not is_end_demanded():
                client._finish()
        except KeyboardInterrupt:
            end_on_demand()
        if is_end_demanded():  # then nothing may end, as that would wait
            end_on_demand()
            lib.devrt_busy(1)
            for each in list(_clients):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
            return


def _keep_what_is_lent() -> None:
    """Let sources that plugins alias outlive the interpreter: their threads may still read them."""
    for client in list(_clients):
        lib.devrt_core_is_stuck(client._core, 0)  # which is not destroyed then
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client._kept))


atexit.register(_keep_what_is_lent)
atexit.register(_finish_programs)
