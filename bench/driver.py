"""The alternation: every side of a case, block by block, in turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.case import Spec, choose
from bench.environments import Environment
from bench.figures import summarize
from bench.process import Worker, WorkerError
from bench.rows import Outcome, Row
from bench.sides import ROOT, variables

__all__ = ["Context", "Options", "Pool", "measure", "run_subject"]

START_TIMEOUT = 120.0
PREPARE_TIMEOUT = 180.0
BLOCK_TIMEOUT = 120.0

Start = Callable[[Environment, Spec], Worker]


@dataclass(frozen=True)
class Options:
    """How much to measure."""

    blocks: int = 21
    is_full: bool = False
    is_quick: bool = False


@dataclass
class Context:
    """What a run has at hand: the environments, the options, and what was learnt of each.

    ``versions`` maps an environment to what its worker reports of itself; ``engines`` names those
    that are devrt on another compiler, which every case is measured on beside its peers.
    """

    environments: Mapping[str, Environment]
    options: Options
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    engines: Sequence[str] = ()

    @property
    def is_simulated(self) -> bool:
        """Whether devrt's devices stand in for GPUs: their figures say nothing of these."""
        return "(simulated)" in self.versions.get("devrt", {}).get("device", "")

    def title(self, name: str) -> str:
        """Return the environment's name and version for the table, as far as it is known."""
        environment = self.environments[name]
        version = self.versions.get(name, {}).get("version", "")
        named = f"on {environment.engine}" if environment.engine else ""
        return " ".join(filter(None, (environment.peer.library, version, named)))


def start_worker(environment: Environment, spec: Spec) -> Worker:
    """Start the worker of an environment on the devices that a case needs."""
    assert environment.python is not None
    peer = environment.peer
    given = variables(peer.side, spec.devices, engine=environment.engine, platform=spec.platform)
    return Worker(
        [environment.python, "-m", "bench.worker", peer.side],
        given | peer.variables,
        # The checkout's root, for `bench` itself; -m puts the working directory first anyway.
        ROOT,
    )


class Pool:
    """The workers that are alive, one for an environment; all have the same devices.

    A worker that died or timed out is started again for the next case; an environment that cannot
    start at all keeps its reason.
    """

    def __init__(self, context: Context, start: Start = start_worker) -> None:
        self._context = context
        self._start = start
        self._devices = ("", 0)
        self._alive: dict[str, Worker] = {}
        self._broken: dict[str, str] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every worker."""
        for worker in self._alive.values():
            worker.close()
        self._alive.clear()

    def get(self, name: str, spec: Spec) -> Worker:
        """Return the environment's worker, on the devices that a case needs.

        Raises
        ------
        WorkerError
            The environment has no Python, or its library cannot be imported.
        """
        if (spec.platform, spec.devices) != self._devices:
            self.close()
            self._devices = (spec.platform, spec.devices)
        if name in self._broken:
            raise WorkerError(self._broken[name])
        found = self._alive.get(name)
        if found is not None and found.is_alive:
            return found
        self._alive[name] = self._greet(name, spec)
        return self._alive[name]

    def _greet(self, name: str, spec: Spec) -> Worker:
        environment = self._context.environments[name]
        if environment.python is None:
            raise WorkerError(self._break(name, environment.reason))
        try:
            worker = self._start(environment, spec)
        except OSError as error:
            raise WorkerError(self._break(name, f"{name}: {error}")) from error
        try:
            hello = {
                "op": "hello",
                "library": environment.peer.library,
                "platform": spec.platform,
            }
            self._context.versions[name] = worker.ask(hello, START_TIMEOUT)
        except WorkerError as error:
            worker.close()
            raise WorkerError(self._break(name, f"{name}: {error}")) from error
        return worker

    def _break(self, name: str, reason: str) -> str:
        self._broken[name] = reason
        return reason


def measure(
    pool: Pool, subject: str, spec: Spec, names: Iterable[str], blocks: int
) -> dict[str, Outcome]:
    """Measure one case in every named environment, in turn, `blocks` times after a warm-up round.

    An environment that fails at any point leaves the rotation with its reason; the others go on.
    """
    samples: dict[str, list[list[float]]] = {}
    failed: dict[str, Outcome] = {}
    notes: dict[str, str] = {}
    prepare = {"op": "prepare", "subject": subject, "case": spec.name}
    for name in names:
        try:
            ready = pool.get(name, spec).ask(prepare, PREPARE_TIMEOUT)
            samples[name], notes[name] = [], ready.get("note", "")
        except WorkerError as error:
            failed[name] = Outcome(reason=str(error))
    for _ in range(blocks + 1):
        for name in list(samples):
            try:
                reply = pool.get(name, spec).ask({"op": "block"}, BLOCK_TIMEOUT)
                samples[name].append(reply["seconds"])
            except WorkerError as error:
                del samples[name]
                failed[name] = Outcome(reason=str(error))
    # The first round is a warm-up: each side has just seen the other's caches.
    return failed | {name: _outcome(seen[1:], notes[name]) for name, seen in samples.items()}


def _outcome(seen: Sequence[Sequence[float]], note: str) -> Outcome:
    figure = summarize(seen)
    blocks = [median(samples) for samples in seen]
    if figure.median > 0:
        return Outcome(figure, blocks=blocks, note=note)
    # A difference of two timings may be zero or less, and would keep any bar.
    return Outcome(reason="it costs less than the noise of its timings", blocks=blocks, note=note)


def run_subject(
    context: Context, subject: str, specs: Sequence[Spec], start: Start = start_worker
) -> list[Row]:
    """Measure every case of a subject; one row for each case and peer."""
    rows = []
    options = context.options
    chosen = choose(specs, is_full=options.is_full, is_quick=options.is_quick)
    with Pool(context, start) as pool:
        # Stable: cases with one device count stand together, so workers are started seldom.
        for spec in sorted(chosen, key=lambda spec: spec.devices):
            print(f"  {subject}: {spec.name}", file=sys.stderr)
            peers = [*context.engines, *(p for p in spec.peers if p in context.environments)]
            seen = measure(pool, subject, spec, ["devrt", *peers], options.blocks)
            bars = {} if context.is_simulated else dict(spec.bars)
            rows += [
                Row(subject, spec.name, context.title(peer), seen["devrt"], seen[peer],
                    sweep=spec.sweep, note=seen["devrt"].note, bar=bars.get(peer))
                for peer in peers
            ]  # fmt: skip
    return rows
