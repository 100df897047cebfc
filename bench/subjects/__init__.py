"""The subjects: one module each, with the code of every side of its cases.

A subject module has ``SPECS`` and, for each side that its cases name, a function
``<side>_cases()`` that imports the library and returns a factory for every spec by name. A subject
that cannot be timed inside a worker has a ``measure(context)`` instead.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["ALIASES", "ON_HARDWARE", "SUBJECTS", "module_of"]

SUBJECTS = {
    "start": "bench.subjects.start",
    "put": "bench.subjects.put",
    "pyval": "bench.subjects.pyval",
    "memory": "bench.subjects.memory",
    "copy": "bench.subjects.copying",
    "reshard": "bench.subjects.reshard",
    "trees": "bench.subjects.trees",
    "numpy": "bench.subjects.to_numpy",
    "call": "bench.subjects.call",
    "jit": "bench.subjects.jit",
    "eager": "bench.subjects.eager",
    "trace": "bench.subjects.trace",
    "run": "bench.subjects.run",
    "pjrt": "bench.subjects.pjrt",
    "native": "bench.subjects.native",
    "coordination": "bench.subjects.coordination",
    "transfer": "bench.subjects.transfer",
    "collectives": "bench.subjects.collectives",
    "gpu": "bench.subjects.gpu",
}
#: Subjects that are measured only when they are named, since few machines have what they need.
ON_HARDWARE = frozenset({"gpu"})
ALIASES = {"import": "start"}


def module_of(subject: str) -> ModuleType:
    """Import the module of a subject."""
    return import_module(SUBJECTS[subject])
