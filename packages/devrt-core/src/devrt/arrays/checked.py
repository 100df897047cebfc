"""Results of clients, checked until a class of buffers has shown that it is as it was requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.contract import Buffer, Client
from devrt.contract.results import not_as_requested, wrong_result

__all__ = ["COPIED", "PUT", "SHARDED", "check_made"]

Spec = tuple[tuple[int, ...], Any]

PUT: set[type] = set()
"""Classes of buffers that were found to be of the shape and dtype, and where they were to be put.

Looked up on the way of every put: what is in here is not checked."""

SHARDED: set[type] = set()
"""The same of puts over several devices, where what ignores its target is seen."""

COPIED: set[type] = set()
"""The same of copies."""


def check_made(
    known: set[type],
    made: Sequence[Any],
    targets: Sequence[Any],
    client: Client,
    operation: str,
    spec: Spec | None = None,
) -> None:
    """Check what a client made for targets, and note in ``known`` a class that needs no more of it.

    ``spec`` is the shape and dtype that were requested; None where they are not known. Raises
    `PluginContractError` if a result is no buffer, of another shape or dtype, or elsewhere.
    """
    for buffer, target in zip(made, targets, strict=True):
        problem = not_as_requested(buffer, target, spec)
        if problem:
            raise wrong_result(client, operation, problem)
    # Of a class written in Python, a result whose shape and dtype are not known tells too little.
    if spec is not None or any(Buffer not in type(buffer).__mro__ for buffer in made):
        known.update(map(type, made))
