"""A program, before it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.compiling.options import CompileOptions
from devrt.compiling.stablehlo import is_bytecode, module_facts
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_pjrt._native import ffi
from devrt_pjrt.library.api import Api
from devrt_pjrt.library.checks import encoded

__all__ = ["Program", "device_count"]


class Program:
    """A StableHLO program: text or bytecode, and what can be seen of it without a compiler.

    Parameters
    ----------
    source
        The program.

    Attributes
    ----------
    code : bytes
        As the plugin takes it.
    is_bytecode : bool
        Whether it is MLIR bytecode.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, str):
            source = encoded(source, "a program", "compile")
        if not isinstance(source, bytes | bytearray | memoryview):
            msg = (
                "a program is StableHLO, as text (str) or as bytecode (bytes), and this is of type "
                f"{type(source).__name__}."
            )
            raise InvalidTypeError(msg, operation="compile")
        self.code = bytes(source)
        self.is_bytecode = is_bytecode(self.code)
        if not self.is_bytecode and (b"func" not in self.code or b"\0" in self.code):
            msg = (
                "a program is StableHLO, as text or as MLIR bytecode, and this is neither: "
                f"it begins with {self.code[:16]!r}. Export it again."
            )
            raise InvalidArgumentError(msg, operation="compile")

    def has_shardy(self) -> bool:
        """Return whether its shardings are Shardy's; with Shardy, older ones would be ignored."""
        return b"sdy" in self.code if self.is_bytecode else b"sdy." in self.code

    def counts(self) -> dict[str, int]:
        """Return the numbers of replicas and partitions that it names."""
        facts = module_facts(self.code)
        return {
            "num_replicas": facts.num_replicas or 1,
            "num_partitions": facts.num_partitions or 1,
        }

    def options(self, options: Mapping[str, Any], count: int | None) -> CompileOptions:
        """Return complete options: what the caller left open comes from the program.

        Parameters
        ----------
        options
            The caller's.
        count
            Number of devices, where the caller named them.
        """
        made = CompileOptions.of(options)
        made = made.replace(**self._counts_for(made, count))
        if made.use_shardy_partitioner is None:
            made = made.replace(use_shardy_partitioner=self.has_shardy())
        wanted = device_count(made)
        if count is not None and count != wanted:
            msg = (
                f"the program is for {made.num_replicas} replica(s) of {made.num_partitions} "
                f"partition(s), {wanted} device(s), and {count} were named."
            )
            raise InvalidArgumentError(msg, operation="compile")
        return made

    def _counts_for(self, made: CompileOptions, count: int | None) -> dict[str, int]:
        """Return the replicas and partitions: as given, as the program says, or as devices are."""
        assigned = made.assignment()
        if assigned is not None:
            said = assigned.replica_count(), assigned.computation_count()
            return dict(zip(("num_replicas", "num_partitions"), said, strict=True))
        if made.num_replicas is not None or made.num_partitions is not None:
            return {
                "num_replicas": made.num_replicas or 1,
                "num_partitions": made.num_partitions or 1,
            }
        found = {name: n for name, n in self.counts().items() if n > 1}
        if not found and count is not None:
            found = {"num_partitions": count}
        return {"num_replicas": 1, "num_partitions": 1, **found}

    def pointer(self, api: Api) -> tuple[Any, Any]:
        """Return a ``PJRT_Program*``, and what must live as long."""
        code, form = ffi.from_buffer(self.code), ffi.new("char[]", b"mlir")
        made = api.new(
            "PJRT_Program",
            code=ffi.cast("char *", code),
            code_size=len(self.code),
            format=form,
            format_size=4,
        )
        return made, (code, form)


def device_count(options: CompileOptions) -> int:
    """Return how many devices complete options are for."""
    return (options.num_replicas or 1) * (options.num_partitions or 1)
