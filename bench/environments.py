"""The Pythons that the sides run in: found, or made from ``peers.toml``."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.sides import ROOT

__all__ = ["Environment", "Peer", "load_peers", "parse_overrides", "resolve"]


@dataclass(frozen=True)
class Peer:
    """One table of ``peers.toml``."""

    name: str
    side: str
    library: str
    requirements: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Environment:
    """A peer and the Python that it runs in, or the reason why there is none.

    ``engine`` is devrt's compiler for the CPU, where it is not to choose itself.
    """

    peer: Peer
    python: str | None
    reason: str = ""
    engine: str = ""


def load_peers(
    path: Path = ROOT / "bench" / "peers.toml", python: tuple[int, int] = sys.version_info[:2]
) -> dict[str, Peer]:
    """Read the environments that cases can name, with what each has on a version of Python."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: Peer(
            name,
            table["side"],
            table["library"],
            _requirements(table, python),
            table.get("variables", {}),
        )
        for name, table in tables.items()
    }


def _requirements(table: Mapping[str, Any], python: tuple[int, int]) -> tuple[str, ...]:
    """Return the requirements of the newest version of Python that is not newer than this one."""
    given = table.get("requirements", ())
    if not isinstance(given, dict):
        return tuple(given)
    by_version = {tuple(map(int, since.split("."))): found for since, found in given.items()}
    return tuple(by_version[max(since for since in by_version if since <= python)])


def parse_overrides(flags: Sequence[str], variable: str, known: Sequence[str]) -> dict[str, str]:
    """Merge ``name=python`` pairs from the flags and a comma-separated variable; flags win.

    Raises
    ------
    ValueError
        A pair is malformed or names no environment of ``peers.toml``.
    """
    made = {}
    for pair in [*filter(None, variable.split(",")), *flags]:
        name, equals, python = pair.partition("=")
        if not equals or not python or name not in known:
            raise ValueError(
                f"{pair!r} is not NAME=PYTHON with a NAME out of {', '.join(sorted(known))}"
            )
        made[name] = python
    return made


def resolve(
    peer: Peer, overrides: Mapping[str, str], folder: Path | None = None, *, install: bool = True
) -> Environment:
    """Find the Python of an environment, making it when it is not there.

    Parameters
    ----------
    peer
        Which environment.
    overrides
        Pythons that the caller named; taken as they are.
    folder
        Where environments are kept; ``DEVRT_BENCH_ENVS`` or ``.venvs`` when None.
    install
        Whether a missing environment may be made (pip needs its index).
    """
    if peer.name in overrides:
        return Environment(peer, overrides[peer.name])
    if not peer.requirements:
        # Nothing of its own to install: the Python that runs this, unless devrt's was named.
        return Environment(peer, overrides.get("devrt", sys.executable))
    home = folder or Path(os.environ.get("DEVRT_BENCH_ENVS") or ROOT / ".venvs")
    target = home.resolve() / _folder(peer)
    if _is_current(target, peer):
        return Environment(peer, str(target / "bin" / "python"))
    if not install:
        return Environment(peer, None, f"{peer.name}: no environment (made without --no-install)")
    return _make(target, peer)


def _folder(peer: Peer) -> str:
    """Return the name of an environment's folder: each version of Python has its own."""
    major, minor = sys.version_info[:2]
    return f"{peer.name}-{major}.{minor}"


def _stamp(target: Path) -> Path:
    return target / "requirements.txt"


def _is_current(target: Path, peer: Peer) -> bool:
    stamp = _stamp(target)
    return stamp.is_file() and stamp.read_text(encoding="utf-8").split() == list(peer.requirements)


def _make(target: Path, peer: Peer) -> Environment:
    """Make the environment with the interpreter that runs this; pip's last line when it fails."""
    print(f"making {peer.name}: {' '.join(peer.requirements)}", file=sys.stderr)
    python = str(target / "bin" / "python")
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(target)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         *peer.requirements],
    )  # fmt: skip
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            output = (done.stderr or done.stdout).strip().splitlines()
            return Environment(
                peer, None, f"{peer.name}: not installed: {output[-1] if output else ''}"
            )
    # Written last: a half-made environment is made again.
    _stamp(target).write_text("\n".join(peer.requirements) + "\n", encoding="utf-8")
    return Environment(peer, python)
