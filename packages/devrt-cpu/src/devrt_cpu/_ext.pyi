"""The native half of devrt's CPU backend."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import devrt.compiling.hlo_modules
import devrt.compiling.options
import devrt.contract
import devrt.layout
import numpy
import numpy.typing


class CpuMemory:
    """One address space of one CPU device."""

    @property
    def kind(self) -> str: ...

    @property
    def platform(self) -> str: ...

    @property
    def process_index(self) -> int: ...

    def addressable_by_devices(self) -> list[CpuDevice]: ...

    def memory_stats(self) -> dict[str, int]:
        """
        Return this memory's own counters, keyed as `CpuDevice.memory_stats`.

        The reserved bytes are those held for all memories of this kind, blocks kept for reuse included.
        """

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    @property
    def address_space(self) -> tuple[int, str]: ...

    @property
    def is_host_visible(self) -> bool: ...

    @property
    def shares_parts(self) -> bool: ...

class CpuDevice:
    """One virtual CPU device."""

    @property
    def id(self) -> int: ...

    @property
    def process_index(self) -> int: ...

    @property
    def host_id(self) -> int: ...

    @property
    def task_id(self) -> int: ...

    @property
    def local_hardware_id(self) -> int: ...

    @property
    def platform(self) -> str: ...

    @property
    def device_kind(self) -> str: ...

    @property
    def client(self) -> CpuClient: ...

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Nothing: a virtual device has no more to say of itself."""

    def __getattr__(self, name: str) -> Any: ...

    def __call__(self) -> CpuDevice:
        """Return the device itself, so that ``buffer.device()`` works too."""

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    def memory(self, kind: str) -> CpuMemory:
        """Return the memory of a kind; the error lists those that there are."""

    def default_memory(self) -> CpuMemory:
        """Return the memory that buffers go to when none is named."""

    def addressable_memories(self) -> list[CpuMemory]:
        """Return every memory of the device, the default one first."""

    def live_buffers(self) -> list[CpuBuffer]:
        """
        Return the buffers on this device that are neither deleted nor collected.
        """

    def live_arrays(self) -> list[CpuBuffer]:
        """Return `live_buffers` under jaxlib's name."""

    def memory_stats(self) -> dict[str, int]:
        """
        Return counts and bytes of the device's own memory, keyed as JAX keys them.

        Of a device without any, whose memories are all the host's: over all of them. The reserved bytes are then those held for all devices of the client, as they share blocks.
        """

    def get_stream_for_external_ready_events(self) -> int:
        """
        Return the handle of the stream that others have wait for what they fill.
        """

    def mark_peak_bytes(self) -> int:
        """
        Return the most bytes in use since the last call, and count anew from now.
        """

class CpuClient:
    """A live connection to the host's processors and memory."""

    def buffer_from_pyval(self, argument: Any, device: CpuDevice | CpuMemory | None = None, force_copy: bool = False, host_buffer_semantics: int = 0, layout: Any = None) -> CpuBuffer:
        """
        Start the transfer of a host value to a device or memory.

        The elements lie in row-major order, or in that of `layout`, a Layout or PjRtLayout.
        """

    def buffer_from_external(self, value: Any, copy: bool | None = None) -> CpuBuffer | None:
        """
        Take over an array of another library that lies on a device of this client.
        """

    def batched_buffer_from_pyval(self, argument: Any, devices: Sequence[CpuDevice | CpuMemory], offsets: Sequence[tuple[int, ...]], shape: tuple[int, ...], host_buffer_semantics: int = 0) -> list[CpuBuffer]:
        """
        Start the transfer of one block of a host array to each of several targets.
        """

    @property
    def platform(self) -> str: ...

    @property
    def platform_version(self) -> str:
        """
        The versions of devrt-cpu and of the compiler, which is not opened for it.
        """

    @property
    def runtime_type(self) -> str: ...

    def process_index(self) -> int: ...

    def host_id(self) -> int: ...

    def task_id(self) -> int: ...

    def devices(self) -> list[CpuDevice]:
        """Return every device of every process, ordered by id."""

    def _get_all_devices(self) -> list[CpuDevice]: ...

    def local_devices(self) -> list[CpuDevice]:
        """Return the devices that this process addresses, ordered by id."""

    def device_count(self) -> int: ...

    def local_device_count(self) -> int: ...

    def device_from_local_hardware_id(self, local_hardware_id: int) -> CpuDevice: ...

    def get_default_layout(self, dtype: Any, shape: Sequence[int], device: CpuDevice | CpuMemory | None = None) -> Any:
        """
        Return the layout of a buffer for which none is requested: row-major, no tiles.
        """

    @property
    def distributed_client(self) -> Any:
        """The connection to the cluster that the client was made with, or None."""

    def __repr__(self) -> str: ...

    def close(self, *, cancel: bool = False) -> None:
        """
        Wait for the work in flight, delete every buffer and give all memory back. Idempotent.

        With `cancel`, work that has not started is dropped: its waiters already get an error of code CANCELLED.
        """

    @property
    def is_closed(self) -> bool: ...

    def __enter__(self) -> CpuClient: ...

    def __exit__(self, *exception: object) -> None: ...

    def defragment(self) -> None:
        """
        Give the memory of freed buffers that is kept for the next ones back to the system.

        Waits for what is in flight, whose end frees what was deleted meanwhile.
        """

    def live_buffers(self) -> list[CpuBuffer]:
        """
        Return the buffers that are neither deleted nor collected, oldest first.
        """

    def live_arrays(self) -> list[CpuBuffer]:
        """Return `live_buffers` under jaxlib's name."""

    def live_executables(self) -> list[CpuLoadedExecutable]:
        """
        Return the executables that are neither deleted nor collected, oldest first.
        """

    def engine_stats(self) -> dict[str, int]:
        """
        Return how many executions there were, and how many buffers the compiler's runtime was shown as they are (views) or copied for it (copies, bytes_copied).
        """

    def heap_profile(self) -> bytes:
        """Return the live buffers as a gzipped pprof profile."""

    def topology(self) -> Any:
        """Return a description of all devices, those of other processes too."""

    def buffers_from_pyvals(self, arguments: Sequence[Any], targets: Sequence[CpuDevice | CpuMemory], host_buffer_semantics: int = 0) -> list[CpuBuffer]:
        """
        Start the transfer of each of several host values to the target at its index.
        """

    def batched_copy_to_memory(self, buffers: Sequence[Any], targets: Sequence[CpuDevice | CpuMemory], may_alias: bool = True) -> list[CpuBuffer]:
        """
        Start a copy of each buffer to the target at its index; share where that is allowed.
        """

    def assemble_buffers(self, sources: Sequence[Any], assembly: Any, targets: Sequence[CpuDevice | CpuMemory], may_alias: bool = True) -> list[CpuBuffer]:
        """
        Start making blocks out of pieces of other buffers, each once for each memory kind.
        """

    def batched_copy_to_host(self, buffers: Sequence[Any], offsets: Sequence[tuple[int, ...]], out: Any) -> None:
        """
        Wait for buffers and write each into a C-contiguous array at its offset.
        """

    def batched_block_until_ready(self, buffers: Sequence[Any]) -> None:
        """Wait for every buffer with the GIL released; raise the first error."""

    def compile(self: CpuClient, program: str | bytes, devices: Sequence[CpuDevice] | None = None, **options: Any) -> CpuLoadedExecutable:
        """Compile and load, under jaxlib's older name."""

    def compile_and_load(self: CpuClient, program: str | bytes, devices: Sequence[CpuDevice] | None = None, compile_options: devrt.compiling.options.CompileOptions | None = None, **options: Any) -> CpuLoadedExecutable:
        """
        Compile a program and load it on devices; see `devrt.contract.Client.compile_and_load`.
        """

    def deserialize_executable(self: CpuClient, serialized: bytes, devices: Sequence[CpuDevice] | None = None, compile_options: devrt.compiling.options.CompileOptions | None = None, **options: Any) -> CpuLoadedExecutable:
        """Load what `serialize_executable` gave, of this or another process."""

    def register_custom_call(self: CpuClient, name: str, function: Any, *, kind: str = 'host') -> None:
        """
        Let programs call a function by name; see `devrt.contract.Client.register_custom_call`.
        """

    def serialize_executable(self: CpuClient, executable: CpuLoadedExecutable) -> bytes:
        """Return a compiled program as bytes, for `deserialize_executable`."""

    @property
    def capabilities(self: CpuClient) -> devrt.contract.Capabilities:
        """Return what can be counted on; see `devrt.contract.Capabilities`."""

    @property
    def program_formats(self: CpuClient) -> tuple[str, ...]:
        """
        Return the formats that `compile_and_load` takes, here and now; none without a compiler.
        """

def make_cpu_client(asynchronous: bool = True, num_devices: int = 1, node_id: int = 0, num_nodes: int = 1, memory_kinds: Sequence[Any] = (), recycled_bytes: int | None = None, memory_limit_bytes: int | None = None, traceback_in_buffers: str = 'sampled', exchange: Callable[..., Any] | None = None, distributed_client: Any = None, execution_timeout: float = 600.0) -> CpuClient:
    """Make a client; see `devrt_cpu.make_cpu_client`."""

def _lapack_routines() -> list[str]: ...

def _lapack_custom_calls() -> list[str]: ...

def _provide_lapack(library: str, addresses: Mapping[str, int]) -> None: ...

class _HostView:
    pass

class CpuBuffer:
    """One immutable allocation on one memory of a CPU device."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> numpy.dtype[Any]: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def itemsize(self) -> int: ...

    @property
    def layout(self) -> object:
        """The order of the elements in memory, a `devrt.layout.Layout`."""

    @property
    def pjrt_layout(self) -> object:
        """The same as a `devrt.layout.PjRtLayout`."""

    @property
    def _pjrt_layout(self) -> object: ...

    def __len__(self) -> int: ...

    def is_ready(self) -> bool:
        """Return whether the data has arrived, without waiting."""

    def block_until_ready(self) -> CpuBuffer:
        """
        Wait for the data, with the GIL released; return the buffer or raise its error.
        """

    def is_deleted(self) -> bool:
        """
        Return whether the buffer was deleted, by `delete` or by closing its client.
        """

    def delete(self) -> None:
        """
        Give the memory back as soon as no view or work in flight uses it. Idempotent.
        """

    def clone(self) -> CpuBuffer:
        """
        Return another buffer on the same allocation, deleted independently of this one.
        """

    def copy_to_memory(self, memory: CpuMemory | CpuDevice, *, may_alias: bool = True) -> CpuBuffer:
        """
        Start a copy to another memory of the same client; share the allocation if allowed.
        """

    def on_device_size_in_bytes(self) -> int:
        """Return the size of the allocation in bytes."""

    def unsafe_buffer_pointer(self) -> int:
        """
        Wait for the data and return its address, valid only while the buffer is alive.
        """

    @property
    def memory(self) -> CpuMemory: ...

    @property
    def device(self) -> CpuDevice: ...

    def devices(self) -> set[CpuDevice]:
        """Return the set of the one device."""

    @property
    def traceback(self) -> devrt.contract.Traceback | None: ...

    @property
    def _arrays(self) -> list[CpuBuffer]: ...

    def __array__(self, dtype: numpy.dtype[Any] | None = None, copy: bool | None = None) -> numpy.typing.NDArray[Any]:
        """
        Return the data as a NumPy array: a read-only view unless a copy is requested.
        """

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """Export the data as a DLPack capsule that keeps the storage alive."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What others read the memory of a GPU by: version 3, for reading only."""

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

def system_allocator() -> object: ...

def page_locked_allocator() -> object: ...

def huge_page_allocator() -> object: ...

def arena_allocator(upstream: object, *, region_bytes: int, granule: int, keep_bytes: int | None) -> object: ...

def limited_allocator(upstream: object, limit_bytes: int) -> object: ...

class _Kernel:
    def launch(self, arguments: object, grid: object, block: object, shared_bytes: int) -> object: ...

    def check(self, sizes: object, grid: object, block: object, shared_bytes: int) -> None: ...

    def provide(self, key: str) -> None: ...

    def attributes(self) -> dict[str, int]: ...

    def suggest_block(self, shared_bytes: int) -> object: ...

class _KernelModule:
    def function(self, name: str) -> _Kernel: ...

def _load_kernels(device: object, image: bytes) -> _KernelModule: ...

def _provide_kernel_calls(library: str) -> None: ...

class _Group:
    @property
    def version(self) -> str: ...

    def run(self, kind: str, arguments: object, result: object, reduction: int, root: int, pairs: object, donate: object | None) -> object: ...

    def busy_seconds(self) -> object: ...

    def break_off(self, why: str) -> None: ...

def _connect(devices: object, library: str, prefix: str) -> _Group: ...

def _connect_across(devices: object, library: str, prefix: str, group_id: bytes, size: int, ranks: Sequence[int]) -> _Group: ...

def _new_group_id(device: CpuDevice, library: str, prefix: str) -> bytes: ...

class CpuToken:
    """The end of a program on one device, apart from its results."""

    def is_ready(self) -> bool: ...

    def block_until_ready(self) -> None:
        """
        Wait until the program has ended; raises the error that it failed with.
        """

class CpuLoadedExecutable:
    """A compiled program, loaded on devices of a cpu client."""

    def execute(self, arguments: Sequence[CpuBuffer]) -> list[CpuBuffer]:
        """
        Start the program on its one device and return its results. Does not wait.
        """

    def execute_with_token(self, arguments: Sequence[CpuBuffer]) -> tuple[list[CpuBuffer], CpuToken]:
        """
        Do as `execute`, and return with the results a token of the program's end.
        """

    def execute_sharded(self, arguments: Sequence[Sequence[CpuBuffer]], with_tokens: bool = False) -> Any:
        """
        Start the program on all its devices; arguments by parameter, then by device; results by output, then by device. With tokens they come beside one of each device's end. Does not wait.
        """

    def delete(self) -> None:
        """Unload the program once no execution in flight uses it. Idempotent."""

    def is_deleted(self) -> bool: ...

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def array_caller(self, array_class: type[Any], takes: Sequence[Any], first: Sequence[Sequence[CpuBuffer]], gives: Sequence[tuple[Any, Any, Any]], is_committed: bool, gives_one: bool) -> Callable[[Sequence[Any]], Any]:
        """
        Return what calls the program with arrays that lie as its devices take them.
        """

    def key_table(self, array_class: type[Any]) -> CpuCallTable:
        """Return a new table of calls by the keys of their arguments."""

    @property
    def name(self) -> str: ...

    @property
    def client(self) -> CpuClient: ...

    def local_devices(self) -> list[CpuDevice]:
        """
        Return the devices of this process that it runs on, in the order of arguments.
        """

    @property
    def num_replicas(self) -> int: ...

    @property
    def num_partitions(self) -> int: ...

    @property
    def parameters(self) -> list[tuple[tuple[int, ...], numpy.dtype[Any]]]:
        """Shape and dtype of each parameter, of one device's shard."""

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], numpy.dtype[Any]]]:
        """Shape and dtype of each output, of one device's shard."""

    @property
    def donated_parameters(self) -> list[int]:
        """Indices of the parameters whose buffers a call deletes."""

    @property
    def is_collective(self) -> bool: ...

    @property
    def custom_calls(self) -> list[str]: ...

    def get_output_memory_kinds(self) -> list[str]: ...

    def serialize(self) -> bytes:
        """
        Return the compiled program, for `deserialize_executable` on a machine of this kind.
        """

    def _serialize(self) -> bytes:
        """
        Return the compiler's own serialised form, which nothing guards against damage.
        """

    def optimized_program(self) -> tuple[str, bytes]:
        """Return the compiler's own program: its format, and its bytes."""

    def _options(self) -> bytes:
        """
        Return the serialised compile options that it was made with; empty for its own.
        """

    @property
    def fingerprint(self) -> bytes: ...

    def cost_analysis(self) -> dict[str, Any]:
        """
        Return the compiler's estimate of work: flops, bytes accessed and others.
        """

    def get_compiled_memory_stats(self) -> dict[str, int]:
        """
        Return the bytes that the compiler planned for code, arguments, outputs and the rest.
        """

    def size_of_generated_code_in_bytes(self) -> int: ...

    def compile_options(self: CpuLoadedExecutable) -> devrt.compiling.options.CompileOptions:
        """
        Return the options that it was compiled with, or loaded with in their place.
        """

    def get_hlo_text(self: CpuLoadedExecutable) -> str:
        """
        Return the compiler's own program as text in HLO's notation, for people to read.
        """

    def get_output_layouts(self: CpuLoadedExecutable) -> list[devrt.layout.PjRtLayout]:
        """Return how each output lies in memory, as each device sees it."""

    def get_output_shardings(self: CpuLoadedExecutable) -> list[Any]:
        """Return how the compiler divided each output; empty with one partition."""

    def get_parameter_layouts(self: CpuLoadedExecutable) -> list[devrt.layout.PjRtLayout]:
        """Return how each parameter must lie in memory, as each device sees it."""

    def get_parameter_shardings(self: CpuLoadedExecutable) -> list[Any]:
        """
        Return how the compiler divided each parameter; empty with one partition.
        """

    def hlo_modules(self: CpuLoadedExecutable) -> list[devrt.compiling.hlo_modules.CompiledModule]:
        """
        Return the compiler's own program: one module, with its text and its bytes.
        """

class CpuShortcut:
    """What a shortcut of a table calls."""

class CpuCallTable:
    """Calls by the keys of their arguments, which are compared by identity."""

    @property
    def find(self) -> Callable[[tuple[Any, ...]], Any]:
        """What calls what was added for the keys of a tuple of arguments."""

    def add(self, keys: Iterable[Any], call: Callable[[Any], Any], build: Callable[[Any], Any] | None) -> None:
        """Add a call, and what is called with what it gives."""

    def clear(self) -> None:
        """Forget the calls; functions of the table find none any more."""

    def shortcut(self, context: Any, stamp: Any, otherwise: Callable[..., Any], explain: Callable[[tuple[Any, ...], Exception], Any]) -> Callable[..., Any]:
        """
        Return a function that calls by the table while context.stamp is the stamp.
        """

def _identify_engine(library: str) -> tuple[int, tuple[int, ...]]: ...

def _engine_devices(client: CpuClient, library: str) -> tuple[int, ...]: ...

def _join_engine(client: CpuClient, library: str, keys: Any) -> tuple[tuple[int, ...], list[tuple[int, int]]]: ...

def _compile(client: CpuClient, library: str, program: bytes, format: str, options: bytes) -> CpuLoadedExecutable: ...

def _deserialize(client: CpuClient, library: str, serialized: bytes, options: bytes) -> CpuLoadedExecutable: ...

def _register_custom_call(library: str, name: str, is_device: bool) -> int: ...

def _register_native_custom_call(library: str, name: str, address: int) -> int: ...
