"""What ``devrt compile`` does: a program compiled for devices that need not be there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from devrt.cli.executables import compiled
from devrt.cli.files import naming, read, read_program, writing
from devrt.cli.tables import Output, human_bytes, waiting
from devrt.errors import DevrtError, InvalidArgumentError, UnimplementedError
from devrt.plugins.discovery.known import (
    advice_for_topologies,
    known_topologies,
    wheels_for_topology,
)
from devrt.runtime import default_runtime, make_pjrt_topology

if TYPE_CHECKING:
    from devrt.cli.files import FileProgram

__all__ = ["compile_file", "parse_options", "show"]


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs.

    A value is an int, a list of ints with commas between them, ``true`` or ``false``, what a file
    holds if it begins with ``@``, or else a string.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            msg = f"an option is written name=value, not {pair!r}."
            raise InvalidArgumentError(msg, option=pair)
        options[name] = _value(text)
    return options


def _value(text: str) -> Any:
    if text.startswith("@"):
        return _text(text[1:])
    if text in ("true", "false"):
        return text == "true"
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        return text
    return numbers if "," in text else numbers[0]


def _text(path: str) -> str:
    try:
        return read(path).decode()
    except UnicodeDecodeError as error:
        msg = f"{path!r} is no text in UTF-8."
        raise InvalidArgumentError(msg, path=path) from error


def compile_file(
    path: str,
    topology: str | None,
    output: str,
    platform: str | None = None,
    topology_options: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compile a program for a topology, write the executable, and return what it needs.

    The program is StableHLO, as text or bytecode; the executable is written whole or not at all.
    Without ``platform`` the first one that knows the topology's name describes it. The answer has
    keys ``platform``, ``topology``, ``devices``, ``device_kind``, ``num_replicas``,
    ``num_partitions``, ``output``, ``bytes``, ``fingerprint``, ``memory`` and ``cost``; a figure
    that the plugin does not tell is None.
    """
    program = read_program(path)
    with writing(output) as file:  # a mistake in its name is an error before minutes of compiling
        if topology is None:
            executable, devices = _compiled_here(path, program, platform, dict(options or {}))
            platform = devices[0].platform
        else:
            described = _topology(topology, platform, dict(topology_options or {}))
            program.check_platform(described.platform)
            with naming(path), waiting(f"compiling {path} for {topology}"):
                executable = described.compile(program, **dict(options or {}))
            devices, platform = described._make_compile_only_devices(), described.platform
        data = executable.serialize()
        file.write(data)
    memory = _answer(executable.get_compiled_memory_stats)
    cost = _answer(executable.cost_analysis)
    fingerprint = _answer(lambda: executable.fingerprint)
    return {
        "platform": platform,
        "topology": topology,
        "devices": len(devices),
        "device_kind": devices[0].device_kind,
        "num_replicas": _answer(lambda: executable.num_replicas),
        "num_partitions": _answer(lambda: executable.num_partitions),
        "output": output,
        "bytes": len(data),
        "fingerprint": None if fingerprint is None else fingerprint.hex(),
        "memory": memory,
        "cost": None if cost is None else {k: v for k, v in cost.items() if "{" not in k},
    }


def _compiled_here(
    path: str, program: FileProgram, platform: str | None, options: dict[str, Any]
) -> tuple[Any, Sequence[Any]]:
    count = (options.get("num_replicas") or 1) * (options.get("num_partitions") or 1)
    executable = compiled(path, program, platform, count if count > 1 else None, options)
    return executable, executable.local_devices()


def _topology(name: str, platform: str | None, options: dict[str, Any]) -> Any:
    """Return the topology, from the platform that was named or from the first that knows it."""
    if platform is not None:
        return make_pjrt_topology(platform, name, **options)
    refused: list[str] = []
    lacking: dict[str, list[str]] = {}  # remedy: the platforms that it makes describe devices
    remedies: dict[str, None] = {}  # one for several platforms is printed once
    platforms, wheels = _platforms(), wheels_for_topology(name)
    for candidate in platforms:
        try:
            return make_pjrt_topology(candidate, name, **options)
        except DevrtError as error:
            remedy = str(error.data.get("remedy", ""))
            if remedy and candidate not in wheels:
                lacking.setdefault(remedy, []).append(candidate)
                continue
            remedies |= dict.fromkeys([remedy] if remedy else [])
            refused.append(f"{candidate}: {error.message.removesuffix(remedy).rstrip()}")
    advice = [advice_for_topologies(wheel) for p, wheel in wheels.items() if p not in platforms]
    remedies |= {f"Install what describes {name}: {words}": None for words in advice}
    if not wheels:
        others = (f"{', '.join(who)} may know others. {how}" for how, who in lacking.items())
        remedies |= dict.fromkeys([_known_names(), *others])
    if not refused:
        refused = ["no installed plugin describes devices"]
    reasons = "\n  ".join([*refused, *remedies])
    msg = f"no platform knows the topology {name!r}:\n  {reasons}"
    raise InvalidArgumentError(msg, topology=name)


def _known_names() -> str:
    """Return what names of topologies begin with, by platform, for a message."""
    kinds = ", ".join(f"{', '.join(names)} ({p})" for p, names in known_topologies().items())
    return f"Names that are known begin with {kinds}; a shape follows, as in v5e:2x2 and h100:8."


def _platforms() -> list[str]:
    """Return the platforms that can be described, those that are preferred first."""
    plugins = default_runtime().plugins
    priority: dict[str, int] = {}
    for ref in plugins.refs():
        try:
            manifest = plugins.manifest(ref)
        except DevrtError:
            continue  # the doctor tells
        mine = manifest.priority if manifest is not None else 0
        priority[ref.platform] = max(mine, priority.get(ref.platform, mine))
    ordered = sorted(priority, key=lambda platform: -priority[platform])
    return [platform for platform in ordered if plugins.topologies(platform)]


def _answer(question: Any) -> Any:
    try:
        return question()
    except UnimplementedError:
        return None


def show(report: Mapping[str, Any]) -> None:
    """Print what was written, and what it takes of a device."""
    out = Output()
    what = f"{report['devices']} x {report['device_kind']} ({report['platform']})"
    where = what if report["topology"] is None else f"{report['topology']}, {what}"
    out.line(f"{report['output']}: {human_bytes(report['bytes'])} for {where}")
    replicas, partitions = report["num_replicas"], report["num_partitions"]
    if replicas and partitions:
        count = replicas * partitions
        out.line(f"  runs on: {count} ({replicas} replicas of {partitions} partitions)")
    for name, value in (report["memory"] or {}).items():
        if value:
            label = name.removesuffix("_in_bytes").removesuffix("_size").replace("_", " ")
            out.line(f"  {label}: {human_bytes(value)}")
    for name, value in sorted((report["cost"] or {}).items()):
        out.line(f"  {name}: {value:,.6g}")
