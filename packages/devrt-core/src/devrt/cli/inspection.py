"""What ``devrt inspect`` shows: what a program takes and gives, and which backends take it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from devrt.cli import executables, report
from devrt.cli.files import read_program
from devrt.cli.tables import Output
from devrt.errors import DevrtError, DevrtWarning, UnimplementedError
from devrt.runtime import default_runtime

if TYPE_CHECKING:
    from devrt.contract import LoadedExecutable
    from devrt.contract.op_sharding import OpSharding

__all__ = ["inspect", "show"]


def inspect(program: str, devices: int | None, platform: str | None = None) -> dict[str, Any]:
    """Return what a program takes and gives, how it is divided, and who can take it.

    Keys: ``ops`` (the operations it is written in), ``backends`` (every installed one: platform,
    distribution, version, whether it takes the program, and the reason where it does not), and as
    the first that takes it compiled it: ``program``, ``platform``, ``devices``, ``parameters``,
    ``outputs``, ``donated``, ``communicates``, ``custom_calls``, ``flops``. Those are missing where
    none does. ``platform`` is the only one that is queried, if not None.
    """
    code = read_program(program)
    count = executables.device_count(program, code, devices)
    executable = None
    queried: set[str] = set()
    rows = []
    installed = report.backends()["backends"]
    if platform is not None:
        installed = _named(installed, platform)
    for backend in installed:
        row = {name: backend[name] for name in ("platform", "distribution", "version")}
        reason = _excluded(backend, queried)
        if not reason:
            queried.add(backend["platform"])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DevrtWarning)  # as of an experimental platform
                    made = executables.compiled(program, code, backend["platform"], count)
                executable = executable or made
            except DevrtError as error:
                reason = error.message
        rows.append(row | {"takes": not reason, "reason": reason or "it compiles"})
    described = {} if executable is None else _described(executable)
    return described | {"ops": sorted(code.facts.operations), "backends": rows}


def _named(installed: list[dict[str, Any]], platform: str) -> list[dict[str, Any]]:
    """Return the backends of a platform; raises what a request for one raises where none is."""
    name = platform.partition("@")[0]
    named = [row for row in installed if name in (row["platform"], *row["aliases"])]
    if not named:
        default_runtime().get_backend(platform)
    return named


def _excluded(backend: dict[str, Any], queried: set[str]) -> str:
    """Return why a backend cannot be queried; empty where it can."""
    if backend["state"] not in ("chosen", "eligible"):
        return str(backend["reason"] or backend["state"])
    if backend["platform"] in queried:
        return "another backend of its platform comes before it"
    return ""


def _described(executable: Any) -> dict[str, Any]:
    parameters = executable.get_parameter_shardings()
    results = executable.get_output_shardings()
    return {
        "program": executable.name,
        "platform": executable.client.platform,
        "devices": len(executable.local_devices()),
        "parameters": _lines(executable.parameters, parameters),
        "outputs": _lines(executable.outputs, results),
        "donated": list(executable.donated_parameters),
        "communicates": executable.is_collective,
        "custom_calls": list(executable.custom_calls),
        "flops": _flops(executable),
    }


def _flops(executable: LoadedExecutable) -> float | None:
    try:
        return executable.cost_analysis().get("flops")
    except UnimplementedError:  # no backend has to know
        return None


def _lines(specs: Any, shardings: Sequence[OpSharding]) -> list[str]:
    """Return the whole arrays, as ``run`` takes and gives them, and how each is divided."""
    lines = []
    for (shape, dtype), (own, _) in zip(executables.whole(specs, shardings), specs, strict=True):
        counts = [size // n if n else 1 for size, n in zip(shape, own, strict=True)]
        divided = f" in {'x'.join(map(str, counts))} parts" if shape != tuple(own) else ""
        lines.append(executables.described_array(shape, dtype) + divided)
    return lines


def show(path: str, found: Mapping[str, Any]) -> None:
    """Print what `inspect` returned."""
    out = Output()
    if "program" in found:
        count = f"{found['devices']} device" + ("s" if found["devices"] != 1 else "")
        out.line(f"{path}: {found['program']}, compiled for {count} of {found['platform']}")
        for number, line in enumerate(found["parameters"]):
            donated = ", donated" if number in found["donated"] else ""
            out.line(f"  in{number}   {line}{donated}")
        for number, line in enumerate(found["outputs"]):
            out.line(f"  out{number}  {line}")
    else:
        out.line(f"{path}: no installed backend takes it")
    for label, words in _facts(found):
        out.line(f"  {label}: {words}")
    rows: list[list[str | Text]] = [
        [
            f"{row['platform']}@{row['distribution']}",
            Text("yes", "green") if row["takes"] else Text("no", "yellow"),
            row["reason"],
        ]
        for row in found["backends"]
    ]
    out.line()
    out.table(("backend", "takes it", "reason"), rows)


def _facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    flops = found.get("flops")
    facts = [
        ("flops", "" if flops is None else f"{flops:,.0f}"),
        ("devices exchange data", "yes" if found.get("communicates") else ""),
        ("custom calls", ", ".join(found.get("custom_calls", ()))),
        ("operations", ", ".join(found["ops"])),
    ]
    return [(label, words) for label, words in facts if words]
