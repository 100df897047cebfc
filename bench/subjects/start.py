"""A fresh process: import and devices(), its wall time and its peak memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.case import Spec, Sweep, choose
from bench.driver import Context
from bench.figures import Figure, summarize
from bench.fresh_process import ProcessError, Run, run_fresh
from bench.plugins import GROUPS, make_plugins
from bench.rows import Outcome, Row
from bench.sides import ROOT, variables

__all__ = ["SPECS", "measure", "subtract"]

IMPORT = "import"
DEVICES = "import and devices()"
FIRST = "import and the first result of a jit, compilation caches warm"
_PLUGINS = (1, 2, 5, 10, 20, 50)
_COUNTS = (1, 4, 16, 64)
_OWN = "start by installed plugins"
_ADOPTED = "start by installed jax_plugins"
_VIRTUAL = "start by CPU devices"
_LIST = "list installed plugins"


# What each side does to know its plugins, and no more: none is imported by devrt, and the other
# side knows no way to list them, so it reads the entry points that it would then import.
_LISTING = {
    "devrt": "from devrt.plugins import discover_plugins; assert discover_plugins()",
    "jax": "from importlib.metadata import entry_points; assert entry_points(group='jax_plugins')",
}


_FIRST = (
    "import {library}; import numpy as np; f = {library}.jit(lambda x: (x * 2 + 1).sum()); "
    "assert float(f(np.ones(8, np.float32))) == 24"
)


def _name(sweep: str, count: int) -> str:
    return f"{sweep}, {count}"


SPECS = [
    Spec(IMPORT),
    Spec(DEVICES),
    Spec(FIRST),
    *(Spec(_name(_OWN, n), sweep=Sweep(_OWN, "plugin", n)) for n in _PLUGINS),
    *(Spec(_name(_ADOPTED, n), sweep=Sweep(_ADOPTED, "plugin", n)) for n in _PLUGINS),
    *(Spec(_name(_VIRTUAL, n), sweep=Sweep(_VIRTUAL, "device", n)) for n in _COUNTS),
    *(Spec(_name(_LIST, n), sweep=Sweep(_LIST, "plugin", n)) for n in _PLUGINS),
]


@dataclass(frozen=True)
class _Child:
    """What one side runs for a case: the Python, the code, the environment variables."""

    python: str
    code: str
    env: Mapping[str, str]


def measure(context: Context) -> list[Row]:
    """Start processes of every side in turn; returns the rows of all cases."""
    rows: list[Row] = []
    reasons = {name: _greet(context, name) for name in ("devrt", "jax")}
    with TemporaryDirectory() as folder:
        options = context.options
        for spec in choose(SPECS, is_full=options.is_full, is_quick=options.is_quick):
            print(f"  start: {spec.name}", file=sys.stderr)
            make = partial(_child, context, spec, Path(folder))
            rows += _measure_one(context, spec, make, reasons)
    return rows


def _greet(context: Context, name: str) -> str:
    """Learn the version of an environment's library; returns why it cannot start, or nothing."""
    environment = context.environments[name]
    if environment.python is None:
        return environment.reason
    library = environment.peer.library
    code = (
        "from bench.worker import version_of; from platform import python_version;"
        f"print(version_of({library!r}), python_version())"
    )
    try:
        output = run_fresh(
            environment.python, code, variables(environment.peer.side, extra_path=str(ROOT))
        ).output
    except ProcessError as error:
        return f"{name}: {error}"
    version, python = output.split()[-2:]
    context.versions[name] = {"version": version, "python": python}
    return ""


def _child(context: Context, spec: Spec, folder: Path, name: str) -> _Child:
    """Return what an environment runs for a case, making its fake plugins when there are some."""
    environment = context.environments[name]
    side, sweep, library = environment.peer.side, spec.sweep, environment.peer.library
    path, devices = "", None
    if sweep is not None and sweep.name == _VIRTUAL:
        devices = int(sweep.x)
    elif sweep is not None:
        group = GROUPS["jax"] if sweep.name == _ADOPTED else GROUPS[side]
        place = folder / f"{group}-{sweep.x}"
        if not place.exists():
            make_plugins(place, int(sweep.x), group)
        path = str(place)
    code = f"import {library}" + ("" if spec.name == IMPORT else f"; {library}.devices()")
    if sweep is not None and sweep.name == _LIST:
        code = _LISTING[side]
    env = dict(variables(side, devices, path))
    if spec.name == FIRST:
        code = _FIRST.format(library=library)
        env |= _caches(side, folder / side)
    assert environment.python is not None
    return _Child(environment.python, code, env)


def _caches(side: str, folder: Path) -> dict[str, str]:
    """Return the variables that let a side keep every program on disk, in a folder of its own."""
    if side == "devrt":
        return {"DEVRT_COMPILATION_CACHE_DIR": str(folder)}
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def _measure_one(
    context: Context, spec: Spec, make: Callable[[str], _Child], reasons: Mapping[str, str]
) -> list[Row]:
    """Run plain interpreter and library of each side in turn; one row for each quantity."""
    failed = {name: Outcome(reason=reason) for name, reason in reasons.items() if reason}
    children = {name: make(name) for name in reasons if name not in failed}
    plain: dict[str, list[Run]] = {name: [] for name in children}
    loaded: dict[str, list[Run]] = {name: [] for name in children}
    # A round is four processes, a second or more: a sweep's points get a third of the rounds.
    blocks = context.options.blocks if spec.sweep is None else max(3, context.options.blocks // 3)
    for _ in range(blocks + 1):
        for name, child in list(children.items()):
            try:
                plain[name].append(run_fresh(child.python, "pass", child.env))
                loaded[name].append(run_fresh(child.python, child.code, child.env))
            except ProcessError as error:
                del children[name]
                failed[name] = Outcome(reason=f"{name}: {error}")
    # The first round fills the page cache and is left out.
    done = {name: (plain[name][1:], loaded[name][1:]) for name in children}
    return _rows(context, spec, failed, done)


def _rows(
    context: Context,
    spec: Spec,
    failed: dict[str, Outcome],
    done: Mapping[str, tuple[Sequence[Run], Sequence[Run]]],
) -> list[Row]:
    quantities: dict[tuple[str, str], dict[str, Outcome]] = {}
    for name, (plain, loaded) in done.items():
        for unit, what, pick in (("s", "wall", _wall), ("B", "peak RSS", _peak)):
            base = summarize([[pick(run)] for run in plain])
            whole = Outcome(
                summarize([[pick(run)] for run in loaded]), blocks=[pick(run) for run in loaded]
            )
            assert whole.figure is not None
            less = Outcome(subtract(whole.figure, base))
            quantities.setdefault((unit, what), {})[name] = whole
            quantities.setdefault((unit, f"{what} less plain"), {})[name] = less
            quantities.setdefault((unit, f"{what} of python -c pass"), {})[name] = Outcome(base)
    if not quantities:
        quantities = {("s", "wall"): {}}
    if spec.sweep is not None:
        # A sweep shows one quantity: what the process takes over an empty interpreter.
        only = ("s", "wall less plain")
        quantities = {only: quantities.get(only, {})}
    note = _imported(done) if spec.sweep is not None and spec.sweep.unit == "plugin" else ""
    return [
        Row("start", f"{spec.name}, {what}" if spec.sweep is None else spec.name,
            context.title("jax"), (failed | seen)["devrt"], (failed | seen)["jax"], unit,
            spec.sweep, note)
        for (unit, what), seen in quantities.items()
    ]  # fmt: skip


def subtract(whole: Figure, base: Figure) -> Figure:
    """Take the plain interpreter's median off a figure; the spread stays the figure's own."""
    off = base.median
    return Figure(whole.median - off, whole.q1 - off, whole.q3 - off, whole.blocks)


def _wall(run: Run) -> float:
    return run.seconds


def _peak(run: Run) -> float:
    return float(run.peak_bytes)


def _imported(done: Mapping[str, tuple[Sequence[Run], Sequence[Run]]]) -> str:
    counts = ", ".join(f"{name} {loaded[-1].fakes}" for name, (_, loaded) in done.items())
    return f"plugin modules imported: {counts}" if counts else ""
