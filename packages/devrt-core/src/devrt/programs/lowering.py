"""A trace as StableHLO, with the shardings of its arguments and results."""

from __future__ import annotations

import collections
import dataclasses
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from devrt._support.warn import warn
from devrt.compiling.divided import marked_shardings, writing_flags
from devrt.compiling.options import CompileOptions
from devrt.contract.op_sharding import OpSharding
from devrt.errors import DevrtError, DevrtWarning
from devrt.programs.across import Across, answer_collectives, by_calls
from devrt.programs.sdy import over_mesh, sharding_attribute
from devrt.sharding import NamedSharding, PartitionSpec, Sharding
from devrt.tracing import MARK, Meshes, Printed, print_module

if TYPE_CHECKING:
    from devrt.contract import LoadedExecutable
    from devrt.programs.placement import Placement
    from devrt.programs.traced import Trace

__all__ = ["across", "compiled", "donations", "printed"]

_DONOR = "jax.buffer_donor = true"
_LINE = re.compile(r"-:(\d+):\d+")


def printed(trace: Trace, placement: Placement, donated: Sequence[bool]) -> Printed:
    """Return a trace as the text of a program for some devices."""
    shardings = [
        *(hidden_sharding(array, placement) for array in trace.hidden),
        *placement.arguments,
    ]
    avals = [
        *(value.aval for _, value in trace.graph.hidden.values()),
        *trace.avals,
    ]
    given = [False] * len(trace.hidden) + list(donated)
    named = [over_mesh(s).mesh for s in (*shardings, *placement.results) if s is not None]
    meshes = Meshes(
        [*placement.meshes, *named, *trace.meshes] if len(placement.devices) > 1 else ()
    )
    arguments = [
        ", ".join(filter(None, (sharding_attribute(s, a.ndim, meshes), _DONOR * d)))
        for s, a, d in zip(shardings, avals, given, strict=True)
    ]
    results = [
        sharding_attribute(s, a.ndim, meshes)
        for s, a in zip(placement.results, trace.out_avals, strict=True)
    ]
    return print_module(
        trace.graph,
        f"jit_{trace.name}",
        arguments=arguments,
        results=results,
        meshes=meshes,
    )


def across(trace: Trace, placement: Placement, donated: Sequence[bool]) -> Across:
    """Return a trace as the program of one device, for the devices of several processes."""
    hidden = [hidden_sharding(array, placement) for array in trace.hidden]
    return Across.of(trace, placement, hidden, [_DONOR * each for each in donated])


def hidden_sharding(array: Any, placement: Placement) -> Sharding | None:
    """Return how an array that the function closes over is taken: as it lies, or whole."""
    devices = set(placement.devices)
    sharding = getattr(array, "sharding", None)
    if len(devices) == 1:
        return None
    if sharding is not None and set(sharding._device_assignment) == devices:
        found: Sharding = sharding
        return found
    return NamedSharding(placement.meshes[0], PartitionSpec())


def donations(trace: Trace) -> list[bool]:
    """Return which arguments' memory results can take over: those as large as one of them."""
    free = collections.Counter((aval.shape, aval.dtype) for aval in trace.out_avals)
    found = []
    for aval, is_donated in zip(trace.avals, trace.donated, strict=True):
        key = (aval.shape, aval.dtype)
        found.append(is_donated and free[key] > 0)
        free[key] -= found[-1]
    unused = [
        f"{path} of {aval}"
        for path, aval, wanted, is_used in zip(
            trace.paths, trace.avals, trace.donated, found, strict=True
        )
        if wanted and not is_used
    ]
    if unused:
        warn(
            f"{trace.name} has no use for the memory of donated arguments: {', '.join(unused)}. No "
            "result is as large; they stay as they are.",
            DevrtWarning,
        )
    return found


def compiled(
    text: Printed, placement: Placement, name: str, options: dict[str, Any]
) -> LoadedExecutable:
    """Compile a program for its devices.

    Where the compiler names a line of the text, the error names the user's line instead.
    """
    from devrt.programs.compile_progress import shown_while_compiling
    from devrt.programs.host_functions import answer_calls

    devices, given, code = list(placement.devices), _by_field(options), text.text
    if by_calls(devices):
        devices = list(placement.local_devices)
        code = answer_collectives(code, devices)
    code = answer_calls(code, devices[0].client)
    try:
        with shown_while_compiling(name, len(devices)), _inspecting(text, devices, given) as flags:
            return devices[0].client.compile_and_load(code, devices, **flags)
    except DevrtError as error:
        message = _LINE.sub(lambda match: _line(text, int(match[1])), error.message)
        if message == error.message:
            raise
        raise type(error)(message, code=error.code, **error.data) from error


@contextmanager
def _inspecting(
    text: Printed, devices: Sequence[Any], options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield options to compile with; afterwards it is known how inspected values are divided.

    A value that the compiler has removed stays unknown.
    """
    if not text.inspected:
        yield options
        return
    if len(devices) == 1:
        yield options
        found = dict.fromkeys(range(len(text.inspected)), OpSharding())
    else:
        with tempfile.TemporaryDirectory(prefix="devrt-") as folder:
            flags = {**options.get("env_option_overrides", {}), **writing_flags(folder)}
            yield {**options, "env_option_overrides": flags}
            found = marked_shardings(folder, MARK)
    for number, each in enumerate(text.inspected):
        each.chosen = found.get(number)
        if each.chosen is None:
            warn(
                f"the compiler does not tell how the value lies that is inspected at {each.frame}: "
                "no result of the program needs it, or this compiler tells nothing of the kind.",
                DevrtWarning,
            )


def _by_field(options: dict[str, Any]) -> dict[str, Any]:
    """Return compile options by field: names that are none are the compiler's own flags."""
    if not options:
        return options
    fields = {field.name for field in dataclasses.fields(CompileOptions)}
    flags = {name: value for name, value in options.items() if name not in fields}
    given = {name: value for name, value in options.items() if name in fields}
    overrides = {**given.pop("env_option_overrides", {}), **flags}
    return {**given, "env_option_overrides": overrides} if overrides else given


def _line(text: Printed, line: int) -> str:
    frame = text.frames.get(line)
    return str(frame) if frame is not None and frame.line else f"line {line} of the program"
