"""Compiling for the CPU: XLA as a plugin, found in its wheel and opened at the first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.compiling.hlo import HloModule
from devrt.compiling.quirks import Flag, flags_of
from devrt.compiling.xla_cpu_libraries import quiet
from devrt.errors import UnimplementedError
from devrt.layout import row_major
from devrt.native.engine import Engine
from devrt_cpu import _library, _linalg
from devrt_cpu._library import Library

if TYPE_CHECKING:
    from devrt_cpu._ext import CpuLoadedExecutable

__all__ = ["ENGINE"]

# Its newer emitter of loops sets MLIR up anew for each of them: half of the time that a small
# program takes to compile. What the older one writes runs as fast there and gives the same bits,
# but where it adds up in another order.
_FLAGS_OF_SMALL = {"xla_cpu_use_fusion_emitters": False}
_SMALL_TEXT, _SMALL_BYTECODE = 4096, 1536  # bytes
_ADDING_UP = (b"reduce", b"dot", b"convolution", b"scatter", b"composite")


class CpuEngine(Engine[Library]):
    """What the CPU adds: the choice of a library, flags of small programs, LAPACK."""

    @property
    def native(self) -> Any:
        from devrt_cpu import _ext

        return _ext

    def library(self, client: Any) -> Library:
        return _library.of(client)

    def opened(self, client: Any) -> Library:
        return _library.opened(client)

    def more_devices(self, needed: int) -> str:
        return (
            f"Make a client with more (num_devices; for devrt's own, DEVRT_NUM_CPU_DEVICES={needed}"
            " or the option num_cpu_devices before its first use), or compile for fewer."
        )

    def platform_version(self, client: Any, own: str) -> str:
        return _library.platform_version(client, own)

    def check_flags(self, library: Library, flags: Mapping[str, object], operation: str) -> None:
        library.refuse_lacking(flags, operation)

    def flags(self, library: Library, program: Program) -> Mapping[str, Flag]:
        return _own_flags(library, program)

    def quiet(self, library: Library) -> AbstractContextManager[None]:
        return quiet(library.engine)

    def handlers(self) -> Sequence[str]:
        return _linalg.known_calls()

    def provided_words(self) -> str:
        calls = _linalg.known_calls()
        routines = {call.split("_")[1][1:] for call in calls if call.startswith("lapack_")}
        others = [call for call in calls if not call.startswith(("lapack_", "blas_"))]
        return (
            f"Known beside XLA's own are {', '.join(others)} and lapack_*_ffi of: "
            f"{', '.join(sorted(routines))} (with devrt-cpu[linalg])."
        )

    def is_provided(self, name: str) -> bool:
        return _linalg.is_known(name)

    def named_calls(self, code: bytes) -> Iterable[str]:
        return _linalg.named_calls(code)

    def provide(self, library: Library, names: Iterable[str]) -> None:
        _linalg.provide(library.path, names)

    def check_compiled(self, source: Program, executable: Any) -> None:
        if source.find(b"layout_mode") >= 0:
            _refuse_laid_out_results(executable)


def _refuse_laid_out_results(executable: CpuLoadedExecutable) -> None:
    # XLA's plugin copies such a result's bytes as they lie, whatever layout is requested of it.
    module = HloModule.read(executable.optimized_program()[1])
    for number, result in enumerate(module.results):
        if result.layout != row_major(len(result.shape)):
            executable.delete()
            msg = (
                f"compile_and_load failed: program '{module.name}' gives output {number} in the "
                f"layout {result.layout}, and the CPU's programs give row-major ones. Leave the "
                "layout mode of its results out, and put them in a Format afterwards."
            )
            raise UnimplementedError(msg, operation="compile_and_load", output=number)


def _own_flags(library: Library, program: Program) -> dict[str, Flag]:
    """Return the flags that devrt compiles a program with, of those that its compiler has."""
    flags = flags_of(library.quirks, program)
    is_small = 0 < len(program) <= (_SMALL_BYTECODE if program.is_bytecode else _SMALL_TEXT)
    if is_small and not any(program.find(name) >= 0 for name in _ADDING_UP):
        flags |= library.without_lacking(_FLAGS_OF_SMALL)
    return flags


ENGINE = CpuEngine("cpu", "devrt_cpu")
