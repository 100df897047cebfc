"""A program as a plugin takes it, and the options that it leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.compiling import Program
from devrt.compiling.options import CompileOptions
from devrt.errors import InvalidArgumentError
from devrt_pjrt._native import ffi
from devrt_pjrt.library.api import Api

__all__ = ["complete_options", "device_count", "pointer_to"]


def complete_options(
    program: Program, options: Mapping[str, Any], count: int | None
) -> CompileOptions:
    """Return complete options: what the caller left open comes from the program.

    Parameters
    ----------
    program
        The program.
    options
        The caller's.
    count
        Number of devices, where the caller named them.
    """
    made = CompileOptions.of(options)
    made = made.replace(**_counts_for(program, made, count))
    if made.use_shardy_partitioner is None:
        made = made.replace(use_shardy_partitioner=program.facts.has_shardy)
    wanted = device_count(made)
    if count is not None and count != wanted:
        msg = (
            f"the program is for {made.num_replicas} replica(s) of {made.num_partitions} "
            f"partition(s), {wanted} device(s), and {count} were named."
        )
        raise InvalidArgumentError(msg, operation="compile")
    return made


def _counts_for(program: Program, made: CompileOptions, count: int | None) -> dict[str, int]:
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
    facts = program.facts
    named = {"num_replicas": facts.num_replicas or 1, "num_partitions": facts.num_partitions or 1}
    found = {name: n for name, n in named.items() if n > 1}
    if not found and count is not None:
        found = {"num_partitions": count}
    return {"num_replicas": 1, "num_partitions": 1, **found}


def pointer_to(program: Program, api: Api) -> tuple[Any, Any]:
    """Return a ``PJRT_Program*``, and what must live as long."""
    code, form = ffi.from_buffer(program), ffi.new("char[]", b"mlir")
    made = api.new(
        "PJRT_Program",
        code=ffi.cast("char *", code),
        code_size=len(program),
        format=form,
        format_size=4,
    )
    return made, (code, form)


def device_count(options: CompileOptions) -> int:
    """Return how many devices complete options are for."""
    return (options.num_replicas or 1) * (options.num_partitions or 1)
