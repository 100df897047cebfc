"""What the cases are made of: arrays of every kind, second clients, programs in processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.contract import Buffer, Client, Device, Memory
from devrt.errors import InvalidTypeError, UnimplementedError
from devrt.testing.conformance.expect import NotApplicable, expect, expect_equal
from devrt.testing.conformance.processes import run_program
from devrt.testing.conformance.subject import Subject

Array = np.ndarray[Any, Any]

SEED = 17
REQUIRED_DTYPES = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float32")
"""What any device holds; other dtypes may be refused by `InvalidTypeError`."""

DELETED = (
    "Buffer: members other than delete and is_deleted raise DeletedError on a deleted buffer, "
    "except shape, dtype and what follows from them"
)


def values(name: str, shape: tuple[int, ...]) -> Array:
    """Return every kind of bit pattern that a dtype has, the same ones each time."""
    element = dtypes.by_name(name)
    count = int(np.prod(shape, dtype=np.int64))
    if name == "bool":
        truths: Array = (np.arange(count) % 2 == 0).reshape(shape)
        return truths
    raw = np.random.default_rng(SEED).integers(0, 256, count * element.itemsize, dtype=np.uint8)
    if element.bits < 8:  # small values, which have one form only
        raw &= (1 << (element.bits - (1 if name.startswith("int") else 0))) - 1
    made: Array = raw.view(dtypes.to_numpy(element.code)).reshape(shape)
    return made


def aligned(size: int, dtype: Any = np.float32, offset: int = 0) -> Array:
    """Return 0, 1, 2 ... at a multiple of 64 plus ``offset`` bytes: memory that may be lent."""
    count = size * np.dtype(dtype).itemsize
    raw = np.zeros(count + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    array: Array = raw[start : start + count].view(dtype)
    array[:] = np.arange(size) % 251
    return array


def expect_close(came: Any, expected: Array, what: str, tolerance: float = 1e-4) -> None:
    """Fail unless two arrays have one shape and dtype, and nearly the same values."""
    found = np.asarray(came)
    spec = f"{found.dtype}{list(found.shape)}"
    wanted = f"{expected.dtype}{list(expected.shape)}"
    expect(spec == wanted, expected=f"{what}: {wanted}", came=spec)
    if dtypes.kind_of(expected.dtype) in "biu":
        expect_equal(found, expected, what)
        return
    wide: Any = np.complex128 if expected.dtype.kind == "c" else np.float64
    left, right = found.astype(wide), expected.astype(wide)
    is_close = np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
    expect(is_close, expected=f"{what}: {right.ravel()[:8]}", came=f"{left.ravel()[:8]}")


def put(subject: Subject, value: Any, target: Device | Memory | None = None) -> Buffer:
    """Put a value on a target of the subject's client."""
    return subject.client.buffer_from_pyval(value, target)


def is_held(subject: Subject, name: str) -> bool:
    """Return whether devices hold a dtype; not tried for those that all hold."""
    if name in REQUIRED_DTYPES:
        return True
    try:
        subject.client.buffer_from_pyval(values(name, (2,)))
    except InvalidTypeError:
        return False
    return True


def memories(subject: Subject) -> list[Memory]:
    """Return every memory of every device of this process, each once."""
    found: dict[int, Memory] = {}
    for device in subject.devices:
        for memory in device.addressable_memories():
            found.setdefault(id(memory), memory)
    return list(found.values())


def statistics(device: Device) -> dict[str, int] | None:
    """Return the statistics of a device's memory; None where it has none, as the contract allows.

    Figures without the one that is always there are a failure: they hide what has to be counted.
    """
    found: Any = device.memory_stats()
    if found is None:
        return None
    has_figures = isinstance(found, Mapping) and type(found.get("bytes_in_use")) is int
    wanted = f"memory_stats() of {device} with an integer for bytes_in_use, or None"
    expect(has_figures, expected=wanted, came=found)
    return dict(found)


def bytes_in_use(device: Device) -> int:
    """Return what the statistics call bytes in use; without any the case is not applicable."""
    stats = statistics(device)
    if stats is None:
        raise NotApplicable("the device has no statistics of its memory: memory_stats() is None")
    return stats["bytes_in_use"]


@contextlib.contextmanager
def other_client(subject: Subject) -> Iterator[Client]:
    """Make a second client, which is closed at the end of the block."""
    client = subject.make_client()
    try:
        yield client
    finally:
        client.close()


def together(work: Callable[[int], None], count: int, timeout: float | None = 25.0) -> None:
    """Call a function with 0 to ``count`` - 1, each in a thread; raise what one raised.

    ``timeout`` is None where each call has a limit of its own.
    """
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  raised by the case's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    if failures:
        raise failures[0]
    is_done = not any(thread.is_alive() for thread in threads)
    expect(is_done, expected=f"{count} threads that end", came=f"one that hangs for {timeout} s")


_CHILD = """
import gc, json, os, sys, threading, warnings
sys.path[:] = json.loads(sys.argv[2])  # where this process finds the plugin
warnings.simplefilter("ignore")
import numpy as np
from devrt.plugins.discovery.refs import PluginRef
from devrt.testing.conformance.expect import NotApplicable
from devrt.testing.conformance.subject import Subject
def end_of_case(kind, error, trace):
    if not issubclass(kind, NotApplicable): return sys.__excepthook__(kind, error, trace)
    os.write(2, str(error).encode("utf-8", "backslashreplace")); os._exit(STATUS)
sys.excepthook = end_of_case
subject = Subject(PluginRef(**json.loads(sys.argv[1])))
"""
_NOT_APPLICABLE = 77  # status of such a program where its case does not apply
_CLIENT = "client, device = subject.client, subject.device\n"


def in_process(
    subject: Subject, program: str, timeout: float = 25.0, *, has_client: bool = True
) -> str:
    """Run a program that has ``subject``, ``client`` and ``device``; return what it printed.

    Without ``has_client`` it makes its client itself.

    It must end with status 0, before the timeout, and without a traceback.
    """
    reference = json.dumps(dataclasses.asdict(subject.reference))
    child = _CHILD.replace("STATUS", str(_NOT_APPLICABLE))
    code = child + (_CLIENT if has_client else "") + textwrap.dedent(program)
    ended = run_program(code, reference, json.dumps(sys.path), timeout=timeout)
    if ended.status == _NOT_APPLICABLE and ended.err:
        raise NotApplicable(ended.err[-2000:])
    expect(ended.status == 0, expected="exit status 0", came=ended.how())
    for word in ("Traceback", "nanobind: leaked", "Fatal Python error"):
        came = ended.err[-600:]
        expect(word not in ended.err, expected="an end without a complaint", came=came)
    return ended.out


def expect_printed(subject: Subject, program: str, expected: str) -> None:
    """Run a program as `in_process` does; fail unless it prints this."""
    expect_equal(in_process(subject, program), expected, "what the process printed")


def offered(call: Callable[[], Any], what: str) -> Any:
    """Return what a call does; not applicable where it is not implemented."""
    try:
        return call()
    except UnimplementedError as error:
        raise NotApplicable(f"{what} is not offered: {error}") from error
