"""``python -m bench``: which subjects to measure, with which Pythons, and where it goes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from bench import machine, store
from bench.driver import Context, Options, run_subject
from bench.environments import Environment, load_peers, parse_overrides, resolve
from bench.rows import Row
from bench.sides import ROOT
from bench.subjects import ALIASES, ON_HARDWARE, SUBJECTS, module_of
from bench.table import render

__all__ = ["main", "write"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that the command line asks for; returns the exit status."""
    parser = _parser()
    flags = parser.parse_args(arguments)
    names = list(dict.fromkeys(ALIASES.get(name, name) for name in flags.subjects))
    names = names or [name for name in SUBJECTS if name not in ON_HARDWARE]
    if unknown := [name for name in names if name not in SUBJECTS]:
        parser.error(f"no subject {unknown[0]!r}; there are {', '.join(SUBJECTS)}")
    if flags.list:
        _list(names)
        return 0
    try:
        context = _context(flags, names)
    except ValueError as error:
        parser.error(str(error))
    sections = {}
    rows: list[Row] = []
    for name in names:
        # Local time would make the same run read differently elsewhere.
        began = datetime.now(UTC).isoformat(timespec="seconds")
        found = _run(name, context)
        rows += found
        sections[name] = store.section(found, began, os.getloadavg(), context.versions)
        if not (flags.quick or flags.null or flags.no_write or flags.engine):
            # At once: a run that is stopped keeps the subjects that it has measured.
            write(name, sections[name], context)
    _report(flags, rows, sections)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("subjects", nargs="*", metavar="SUBJECT", help=f"any of: {', '.join(SUBJECTS)}")
    add("--list", action="store_true", help="name the cases and stop")
    add("--quick", action="store_true", help="few blocks, short sweeps; nothing is written")
    add("--full", action="store_true", help="the 1 GiB points too")
    add("--json", action="store_true", help="print JSON in place of the table")
    add("--blocks", type=int, help="blocks per case and side (21; 5 with --quick)")
    add("--peer", action="append", default=[], metavar="NAME=PYTHON",
        help="use this Python for an environment of peers.toml (also DEVRT_BENCH_PEERS, "
        "comma-separated)")  # fmt: skip
    add("--no-install", action="store_true", help="make no environment")
    add("--no-write", action="store_true", help="leave bench/results as it is")
    add("--engine", action="append", default=[], metavar="WHEEL",
        help="devrt's compiler for the CPU, a wheel's name or a path; each further one is devrt "
        "again, beside the peers")  # fmt: skip
    add("--null", metavar="NAME", help="measure this environment beside itself: how far from 1 "
        "the ratios lie is the noise of the machine; nothing is written")  # fmt: skip
    return parser


def _context(flags: argparse.Namespace, names: Sequence[str]) -> Context:
    peers = load_peers()
    given = os.environ.get("DEVRT_BENCH_PEERS", "")
    overrides = parse_overrides(flags.peer, given, list(peers))
    if flags.null:
        if flags.null not in peers:
            raise ValueError(f"--null {flags.null}: peers.toml has no such environment")
        peers = {flags.null: peers[flags.null]}
    needed = {peer for name in names for spec in module_of(name).SPECS for peer in spec.peers}
    needed.add("devrt")
    made: dict[str, Environment] = {
        name: resolve(peer, overrides, install=not flags.no_install)
        for name, peer in peers.items()
        if name in needed or name == flags.null
    }
    if flags.null:
        # devrt's place in the rotation is taken by a second process of the peer.
        made["devrt"] = replace(made[flags.null])
    engine, *others = flags.engine or [""]
    again = {f"devrt on {wheel}": replace(made["devrt"], engine=wheel) for wheel in others}
    made |= {"devrt": replace(made["devrt"], engine=engine), **again}
    blocks = flags.blocks or (5 if flags.quick else 21)
    return Context(made, Options(blocks, flags.full, flags.quick), engines=[*again])


def _run(name: str, context: Context) -> list[Row]:
    module = module_of(name)
    if hasattr(module, "measure"):
        return module.measure(context)  # type: ignore[no-any-return]
    return run_subject(context, name, module.SPECS)


def _list(names: Sequence[str]) -> None:
    for name in names:
        module = module_of(name)
        print(f"{name}: {(module.__doc__ or '').splitlines()[0]}")
        for spec in module.SPECS:
            large = "  (--full)" if spec.is_large else ""
            print(f"    {spec.name}  [{', '.join(spec.peers)}]{large}")


def _report(
    flags: argparse.Namespace, rows: Sequence[Row], sections: dict[str, dict[str, object]]
) -> None:
    if flags.json:
        print(json.dumps(store.merge({}, machine.facts(), sections), indent=1))
    else:
        print(render(rows, f"{flags.null} (again)" if flags.null else "devrt"))


def write(name: str, section: dict[str, object], context: Context) -> None:
    """Put a subject's section into the machine's file; a GPU has a file of its own."""
    folder = ROOT / "bench" / "results"
    if name not in ON_HARDWARE:
        slug = machine.slug(machine.cpu_model(), os.cpu_count() or 1)
        store.write(folder / f"{slug}.json", machine.facts(), {name: section})
        return
    kind = context.versions.get("devrt", {}).get("device", "")
    if not kind or context.is_simulated:
        print(f"{name}: nothing is written, since there is no GPU", file=sys.stderr)
        return
    facts = machine.facts() | {"device": kind}
    store.write(folder / f"{machine.words(kind)}.json", facts, {name: section})
