"""Compiled programs that are bound to no device: what their plugin tells of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from devrt import contract
from devrt.compiling.hlo import HloModule
from devrt.compiling.memory_stats import CompiledMemoryStats
from devrt.compiling.serialized import Serialized, with_checksum
from devrt.errors import DeletedError, UnimplementedError
from devrt_pjrt._native import ffi
from devrt_pjrt.buffers.layout import executable_layouts
from devrt_pjrt.buffers.spec import Spec, spec_of
from devrt_pjrt.library.api import Api, text_of
from devrt_pjrt.library.handle import Handle
from devrt_pjrt.library.values import read_values

if TYPE_CHECKING:
    from devrt.compiling.hlo_modules import CompiledModule
    from devrt.compiling.options import CompileOptions
    from devrt.layout import PjRtLayout
    from devrt_pjrt.connection.connection import Connection

__all__ = ["Executable"]


class Executable(Handle, contract.Executable):
    """A compiled program that is bound to no device.

    Parameters
    ----------
    api
        The plugin that compiled it.
    pointer
        A ``PJRT_Executable*``, owned from now on.
    connection
        Of the client whose loaded executable it is of; None where it was compiled ahead of time.
    source
        The serialised bytes that it was loaded from; None where it was compiled.
    donated
        Numbers of the parameters that the program may take over, as its source has them; None where
        that is not known. For plugins that do not give the optimised program.
    """

    def __init__(
        self,
        api: Api,
        pointer: Any,
        connection: Connection | None = None,
        source: bytes | None = None,
        donated: tuple[int, ...] | None = None,
    ) -> None:
        self._api = api
        self._donated = donated
        self._connection = connection
        self._source = source
        destroy = api.table.PJRT_Executable_Destroy

        def drop(pointer: Any) -> None:
            if api.is_lost():
                return
            error = destroy(api.new("PJRT_Executable_Destroy_Args", executable=pointer))
            if error:
                api.take(error, "PJRT_Executable_Destroy")

        self._pointer: Any = ffi.gc(pointer, drop)

    @contextmanager
    def using(self, function: str) -> Iterator[Any]:
        """Keep the plugin's object, which this yields, while one of its functions is called."""
        with self._connection.using(function) if self._connection is not None else nullcontext():
            pointer = self._pointer
            if pointer is None:
                msg = f"{function} failed: its loaded executable is gone. Keep that one."
                raise DeletedError(msg, operation=function)
            yield pointer

    def _ask(self, function: str, **fields: Any) -> Any:
        with self.using(_python_name(function)) as pointer:
            return self._api.call(f"PJRT_Executable_{function}", executable=pointer, **fields)

    def release(self) -> None:
        """Give the plugin's object back: it must not outlive the client of what it is of."""
        pointer, self._pointer, self._source = self._pointer, None, None
        if pointer is not None:
            ffi.release(pointer)

    def forget_source(self) -> None:
        """Release the serialised bytes that it was loaded from, which may be large."""
        self._source = None

    @functools.cached_property
    def name(self) -> str:
        args = self._ask("Name")
        return text_of(args.executable_name, args.executable_name_size)

    @functools.cached_property
    def num_replicas(self) -> int:
        return int(self._ask("NumReplicas").num_replicas)

    @functools.cached_property
    def num_partitions(self) -> int:
        return int(self._ask("NumPartitions").num_partitions)

    @functools.cached_property
    def num_outputs(self) -> int:
        """Number of arrays that the program returns."""
        return int(self._ask("NumOutputs").num_outputs)

    def output_specs(self) -> list[Spec]:
        """Return dtype and shape of each result, as each device sees it."""
        count = self.num_outputs
        types = self._ask("OutputElementTypes")
        dims = self._ask("OutputDimensions")
        found, at = [], 0
        for i in range(count):
            size = int(dims.dim_sizes[i])
            shape = tuple(int(dims.dims[at + j]) for j in range(size))
            found.append(spec_of(int(types.output_types[i]), shape))
            at += size
        return found

    def get_output_memory_kinds(self) -> list[str]:
        args = self._ask("OutputMemoryKinds")
        return [
            text_of(args.memory_kinds[i], args.memory_kind_sizes[i])
            for i in range(args.num_outputs)
        ]

    def get_parameter_memory_kinds(self) -> list[str]:
        args = self._ask("ParameterMemoryKinds")
        return [
            text_of(args.memory_kinds[i], args.memory_kind_sizes[i])
            for i in range(args.num_parameters)
        ]

    def get_parameter_layouts(self) -> list[PjRtLayout]:
        """Return how each argument must lie in memory, as each device sees it.

        Raises
        ------
        UnimplementedError
            If the plugin tells neither that nor the optimised program.
        """
        return self._layouts("Parameter")

    def get_output_layouts(self) -> list[PjRtLayout]:
        return self._layouts("Output")

    def _layouts(self, what: str) -> list[PjRtLayout]:
        from devrt.layout import PjRtLayout

        found = executable_layouts(self._api, self.using, what)
        if found is None and self.facts is not None:  # the compiler's own word
            facts = self.facts
            arrays = facts.parameters if what == "Parameter" else facts.results
            found = [array.layout for array in arrays]
        if found is None:
            msg = (
                f"the PJRT plugin {self._api.name} tells no layouts of a program: it has neither "
                "the extension for them nor its optimised program."
            )
            raise UnimplementedError(msg, operation=f"get_{what.lower()}_layouts")
        return [PjRtLayout(layout) for layout in found]

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], Any]]:
        return [(spec.shape, spec.dtype) for spec in self.output_specs()]

    def size_of_generated_code_in_bytes(self) -> int:
        return int(self._ask("SizeOfGeneratedCodeInBytes").size_in_bytes)

    @property
    def fingerprint(self) -> bytes:
        args = self._ask("Fingerprint")
        return bytes(ffi.buffer(args.executable_fingerprint, args.executable_fingerprint_size))

    def cost_analysis(self) -> Mapping[str, Any]:
        args = self._ask("GetCostAnalysis")
        return read_values(args.properties, args.num_properties)

    def memory_analysis(self) -> CompiledMemoryStats:
        """Return what the program takes of memory."""
        args = self._ask("GetCompiledMemoryStats")
        names = [field.name for field in dataclasses.fields(CompiledMemoryStats)]
        return CompiledMemoryStats(*(int(getattr(args, name)) for name in names))

    def get_compiled_memory_stats(self) -> dict[str, int]:
        """Return what the program takes of memory, as `memory_analysis`, by name."""
        return dataclasses.asdict(self.memory_analysis())

    def optimized_program(self) -> tuple[str, bytes]:
        """Return the program as the compiler left it: its format, and its bytes."""
        program = self._api.new("PJRT_Program")
        self._ask("OptimizedProgram", program=program)
        code = ffi.new("char[]", program.code_size)
        program.code = code
        self._ask("OptimizedProgram", program=program)
        return text_of(program.format, program.format_size), bytes(ffi.buffer(code))

    def serialize(self) -> bytes:
        """Return the executable as bytes, which a client of the same plugin loads."""
        with self.using("serialize"):
            # XLA's CPU client serialises a loaded executable without its functions.
            if self._source is not None:
                return self._source
        args = self._ask("Serialize")
        try:
            data = ffi.buffer(args.serialized_bytes, args.serialized_bytes_size)
            origin = self._connection.origin() if self._connection is not None else b""
            return with_checksum(bytes(data), made_by=origin, donated=self.donated)
        finally:
            args.serialized_executable_deleter(args.serialized_executable)

    def compile_options(self) -> CompileOptions:
        """Return the options that the program was compiled with, as far as devrt has such options.

        Raises
        ------
        UnimplementedError
            If the plugin neither tells them nor shows them in its serialised executables.
        """
        from devrt.compiling.loading import stored_options
        from devrt.compiling.options import CompileOptions

        if not self._api.has("PJRT_Executable_GetCompileOptions"):
            kept = Serialized.read(self.serialize(), "compile_options")
            return CompileOptions.deserialize(kept.options or stored_options(kept.data))
        args = self._ask("GetCompileOptions")
        try:
            data = ffi.buffer(args.serialized_bytes, args.serialized_bytes_size)
            return CompileOptions.deserialize(bytes(data))
        finally:
            args.serialized_compile_options_deleter(args.serialized_compile_options)

    @functools.cached_property
    def facts(self) -> HloModule | None:
        """What the optimised program says of itself; None where the plugin does not give it."""
        try:
            form, data = self.optimized_program()
        except UnimplementedError:
            return None
        if form not in ("hlo", "hlo_with_config"):
            return None
        return HloModule.read(data, with_config=form == "hlo_with_config")

    def known(self, operation: str) -> HloModule:
        """Return the facts; raise where the plugin does not give the optimised program."""
        if self.facts is None:
            of = self._connection
            platform: dict[str, Any] = {"platform": of.platform} if of is not None else {}
            msg = (
                f"{operation} failed: the PJRT plugin {self._api.name} does not tell it of its "
                "compiled programs."
            )
            raise UnimplementedError(msg, operation=operation, **platform)
        return self.facts

    @property
    def donated(self) -> tuple[int, ...] | None:
        """Numbers of the parameters that the program may take over; None where nobody knows."""
        return self._donated if self.facts is None else self.facts.donated

    @property
    def donated_parameters(self) -> list[int]:
        found = self.donated
        return list(self.known("donated_parameters").donated if found is None else found)

    @property
    def custom_calls(self) -> list[str]:
        return list(self.known("custom_calls").custom_calls)

    def parameter_specs(self) -> list[Spec] | None:
        """Return dtype and shape of each argument on each device; None where nobody knows."""
        found = self.facts.parameters if self.facts is not None else ()
        specs = [spec_of(each.code, each.shape) for each in found if each.code is not None]
        return specs if self.facts is not None and len(specs) == len(found) else None

    @property
    def parameters(self) -> list[tuple[tuple[int, ...], Any]]:
        self.known("parameters")
        specs = self.parameter_specs()
        if specs is None:
            msg = f"parameters failed: {self.name!r} takes what no buffer can be."
            raise UnimplementedError(msg, operation="parameters")
        return [(spec.shape, spec.dtype) for spec in specs]

    def get_parameter_shardings(self) -> list[contract.OpSharding]:
        return list(self.known("get_parameter_shardings").parameter_shardings)

    def get_output_shardings(self) -> list[contract.OpSharding]:
        return list(self.known("get_output_shardings").result_shardings)

    def get_hlo_text(self) -> str:
        self.known("get_hlo_text")
        return self.hlo_modules()[0].to_string()

    def hlo_modules(self) -> list[CompiledModule]:
        """Return the optimised program: one module, with its text and its bytes.

        Raises
        ------
        UnimplementedError
            If the plugin does not give it, or gives it in another form than XLA's.
        """
        from devrt.compiling.hlo_modules import CompiledModule

        return [CompiledModule.of(self.optimized_program())]

    def __repr__(self) -> str:
        return f"Executable({self.name!r}, {self.num_replicas}x{self.num_partitions})"


def _python_name(function: str) -> str:
    """Return what a function of the C API is called in Python, as errors name it."""
    name = function.removeprefix("Get")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
