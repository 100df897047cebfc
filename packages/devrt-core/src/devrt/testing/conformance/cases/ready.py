"""Ready events: not ready, ready, failed, cancelled; and who goes on while somebody waits."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.contract import Buffer, LoadedExecutable
from devrt.errors import DevrtError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.clock import clock
from devrt.testing.conformance.expect import (
    Failure,
    expect,
    expect_equal,
    expect_error,
    not_applicable,
    require,
)
from devrt.testing.conformance.material import Array, put, together
from devrt.testing.conformance.programs import compiled, program, slow, takes_programs
from devrt.testing.conformance.subject import Subject

IS_READY = "Buffer.is_ready: whether the data has arrived, without waiting"
WAIT = "Buffer.block_until_ready: wait for the data, with the GIL released; return the buffer or "
WAIT += "raise its error"
FAILED = "Buffer: every member that looks at the data waits for the ready event, and raises its "
FAILED += "error if the work that was to fill the buffer failed"
X = np.arange(8, dtype=np.float32)
_COPIED = (16 << 20, 1 << 20, 1 << 12)  # bytes
_LONG = 0.03  # seconds
_names = itertools.count()


@case("transfer", "a buffer that was waited for is ready", contract=WAIT)
def waited_for_is_ready(subject: Subject) -> None:
    for size, semantics in itertools.product((1, 1 << 18), range(4)):
        host = np.arange(size, dtype=np.int32)
        buffer = subject.client.buffer_from_pyval(host, None, False, semantics)
        came = buffer.block_until_ready()
        expect(came is buffer, expected="the buffer itself", came=repr(came))
        expect_equal(buffer.is_ready(), True, "is_ready() after block_until_ready()")
        expect_equal(np.asarray(buffer), host, "its data")


@case("transfer", "copies and clones become ready, and are complete then", contract=IS_READY)
def copies_become_ready(subject: Subject) -> None:
    host = np.arange(1 << 18, dtype=np.int32)
    for memory in subject.device.addressable_memories():
        source = subject.client.buffer_from_pyval(host, None, False, 1)
        for made in (source.copy_to_memory(memory, may_alias=False), source.clone()):
            deadline = time.monotonic() + 20
            while not made.is_ready():
                is_late = time.monotonic() > deadline
                expect(not is_late, expected="a ready buffer", came="none within 20 s")
            expect_equal(np.asarray(made), host, f"a copy on {memory!r} that says it is ready")


def _late(subject: Subject) -> tuple[LoadedExecutable, Array, float]:
    """Return a program that takes about half a second, its argument, and its time."""
    require(subject.client.capabilities.asynchronous, "its client is not asynchronous")
    steps, seconds = 100, 0.0
    for _ in range(6):
        executable, matrix = slow(subject, 256, steps)
        argument = put(subject, matrix, subject.device)
        executable.execute([argument])[0].block_until_ready()
        started = time.perf_counter()
        executable.execute([argument])[0].block_until_ready()
        seconds = time.perf_counter() - started
        if seconds > 0.2:
            return executable, matrix, seconds
        steps = int(steps * max(2.0, 0.5 / max(seconds, 1e-3)))
    not_applicable(f"no program here takes long enough to be seen running ({seconds:.3f} s)")


@case("transfer", "is_ready does not wait for copies that are under way", contract=IS_READY,
      deadline=60)  # fmt: skip
def looking_does_not_wait(subject: Subject) -> None:
    require(subject.client.capabilities.asynchronous, "its client is not asynchronous")
    # Small ones too: allocations may take longer than what is copied.
    size = next((size for size in _COPIED if _look(subject, size)[1] > _LONG), None)
    if size is None:
        not_applicable("no copies here take long enough to be looked at")
    looks = []
    for _ in range(5):
        looked, left = _look(subject, size)
        if looked < left / 2:
            return
        looks.append(f"{looked:.3f} s of {left:.3f} s")
    raise Failure("is_ready() that does not wait", f"it took {', '.join(looks)}")


def _look(subject: Subject, size: int) -> tuple[float, float]:
    """Return how long a look at copies of copies takes, and how long they take from there."""
    memory = subject.device.default_memory()
    made = [put(subject, np.zeros(size, np.uint8), subject.device)]
    for _ in range(24):
        made.append(made[-1].copy_to_memory(memory, may_alias=False))
    started, began = time.perf_counter(), clock()
    made[-1].is_ready()
    looked = clock() - began
    made[-1].block_until_ready()
    return looked, time.perf_counter() - started


@case("execute", "a result is not ready while its program runs, and ready after it",
      contract=IS_READY, deadline=60)  # fmt: skip
def result_is_not_ready_at_once(subject: Subject) -> None:
    executable, matrix, seconds = _late(subject)
    argument = put(subject, matrix, subject.device).block_until_ready()
    for _ in range(5):
        started, began = time.perf_counter(), clock()
        (made,) = executable.execute([argument])
        called = clock() - began
        is_early, looked = made.is_ready(), time.perf_counter() - started
        expect(called < seconds / 2, expected="a call that does not wait", came=f"{called:.3f} s")
        if looked < seconds / 2:
            break
    else:
        not_applicable(f"the machine is busy: a look came {looked:.3f} s after the call")
    expect(not is_early, expected=f"False after {looked:.3f} of {seconds:.3f} s", came="True")
    copied = made.copy_to_memory(made.memory, may_alias=False)
    clone = made.clone()
    expect(not copied.is_ready() or made.is_ready(), expected="a copy not ready", came="ready")
    expect_equal(np.asarray(made), matrix, "the result, which is waited for")
    for each in (made, clone, copied.block_until_ready()):
        expect_equal(each.is_ready(), True, "is_ready() afterwards")
    expect_equal(np.asarray(copied), matrix, "the copy of a result that was not ready")


@case("execute", "other threads go on while one waits", contract=WAIT, deadline=60)
def waiting_releases_the_gil(subject: Subject) -> None:
    executable, matrix, seconds = _late(subject)
    argument = put(subject, matrix, subject.device).block_until_ready()
    waits: dict[str, Callable[[Buffer], Any]] = {
        "block_until_ready": lambda b: b.block_until_ready(),
        "numpy.asarray": np.asarray,
        "batched_block_until_ready": lambda b: subject.client.batched_block_until_ready([b]),
    }
    for what, wait in waits.items():
        limit, stalled = max(0.5 * seconds, 0.15), 0.0
        for _ in range(3):  # on a busy machine a thread may lose its processor, and keep the GIL
            stalled = _stalled_by(wait, executable.execute([argument])[0])
            if stalled < limit:
                break
        came = f"nothing else ran for {stalled:.3f} s of {seconds:.3f} s"
        expect(stalled < limit, expected=f"others to run during {what}", came=came)


def _stalled_by(wait: Any, buffer: Buffer) -> float:
    """Return the longest time for which this thread did not run while another one waits."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            wait(buffer)
        except BaseException as error:  # noqa: BLE001  raised below
            failures.append(error)

    thread = threading.Thread(target=work, daemon=True)
    longest, last = 0.0, clock()
    thread.start()
    while thread.is_alive():
        time.sleep(0.002)
        now = clock()
        longest, last = max(longest, now - last), now
    if failures:
        raise failures[0]
    return longest


@case("execute", "several threads wait for one buffer", contract=WAIT, deadline=60)
def several_threads_wait(subject: Subject) -> None:
    executable, matrix, _ = _late(subject)
    (made,) = executable.execute([put(subject, matrix, subject.device)])

    def wait(number: int) -> None:
        made.block_until_ready() if number % 2 else made.clone().block_until_ready()
        expect_equal(made.is_ready(), True, "is_ready() in a thread that has waited")
        expect_equal(np.asarray(made), matrix, "what a thread has waited for")

    together(wait, 6)


def _failed(subject: Subject) -> Buffer:
    """Return the result of a program that fails after its call has returned."""
    client = subject.client
    require(client.capabilities.custom_calls, "no program can be made to fail: no custom calls")
    name = f"devrt_conform_fails_{next(_names)}"

    def fails(a: Array) -> Array:
        raise ValueError("the case's own failure")

    client.register_custom_call(name, fails)
    late, matrix = slow(subject, 256, 40)  # its argument, so that it does not run in the call
    body = f"%r = stablehlo.custom_call @{name}(%a) {{api_version = 4 : i32}} : ($a) -> $a"
    executable = compiled(subject, program(body, [matrix], [matrix]))
    (argument,) = late.execute([put(subject, matrix, subject.device)])
    try:
        (made,) = executable.execute([argument])
    except DevrtError as error:  # a client may find out before it returns
        not_applicable(f"a program that fails raises in its call: {error}")
    return made


@case("execute", "work that failed is raised by whatever looks at the data", contract=FAILED)
def failure_is_raised_by_readers(subject: Subject) -> None:
    made = _failed(subject)
    readers: dict[str, Callable[[], Any]] = {
        "block_until_ready": lambda: made.block_until_ready(),
        "numpy.asarray": lambda: np.asarray(made),
        "batched_block_until_ready": lambda: subject.client.batched_block_until_ready([made]),
        "a clone": lambda: made.clone().block_until_ready(),
    }
    for _ in range(2):
        for reader in readers.values():
            with expect_error(DevrtError, "the case's own failure"):
                reader()
    expect_equal(made.is_ready(), True, "is_ready() of a buffer whose work failed")
    expect_equal((made.shape, made.dtype), ((256, 256), X.dtype), "its shape and dtype")
    made.delete()


@case("execute", "a failure goes on to what was made of it", contract=FAILED)
def failure_goes_on(subject: Subject) -> None:
    made = _failed(subject)
    ones = np.ones((256, 256), np.float32)
    double = compiled(subject, program("%r = stablehlo.add %a, %a : $a", [ones], [ones]))

    def computed() -> Any:
        return double.execute([made])[0].block_until_ready()

    def copied() -> Any:
        return made.copy_to_memory(made.memory, may_alias=False).block_until_ready()

    for what, step in (("a program", computed), ("a copy", copied)):
        try:
            step()
        except DevrtError:
            continue
        raise Failure(f"{what} of a failed buffer to raise", "a result")
    (right,) = double.execute([put(subject, ones, subject.device)])
    expect_equal(np.asarray(right), 2 * ones, "a program that ran after the failure")


@case(
    "execute",
    "functions of the host are called by programs, with their values",
    contract="Client.register_custom_call: the callable gets a NumPy array of its own for each "
    "argument; it returns an array for each result, of its shape and dtype",
)
def custom_calls_compute(subject: Subject) -> None:
    client = subject.client
    require(client.capabilities.custom_calls, "its client takes no custom calls")
    name, seen = f"devrt_conform_adds_{next(_names)}", []

    def adds(a: Array, b: Array) -> Array:
        seen.append((a.shape, b.dtype.name))
        made: Array = a + 10 * b
        return made

    client.register_custom_call(name, adds)
    body = f"%r = stablehlo.custom_call @{name}(%a, %b) {{api_version = 4 : i32}} : ($a, $b) -> $a"
    executable = compiled(subject, program(body, [X, X], [X]))
    expect_equal(name in list(executable.custom_calls), True, "the target among custom_calls")
    for _ in range(3):
        (made,) = executable.execute([put(subject, X, subject.device), put(subject, X + 1)])
        expect_equal(np.asarray(made), X + 10 * (X + 1), "what the function returned")
    expect_equal(seen, [((8,), "float32")] * 3, "the calls")


@case(
    "execute",
    "closing waits for what runs, and leaves no waiter behind",
    contract="Client.close: wait for the work in flight and give all memory back",
    deadline=60,
)
def closing_ends_waits(subject: Subject) -> None:
    require(subject.client.capabilities.asynchronous, "its client is not asynchronous")
    takes_programs(subject)
    matrix = np.eye(256, dtype=np.float32)
    for is_cancelled in (False, True):
        client = subject.make_client()
        executable = client.compile_and_load(_SLOW)
        argument = client.buffer_from_pyval(matrix)
        results = [executable.execute([argument])[0] for _ in range(6)]
        ends: list[str] = []

        def wait(made: list[Buffer] = results, ends: list[str] = ends) -> None:
            for buffer in made:
                try:
                    buffer.block_until_ready()
                    ends.append("ready")
                except DevrtError as error:
                    ends.append(type(error).__name__)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        _close(client, is_cancelled)
        thread.join(20)
        expect(not thread.is_alive(), expected="the waiter to end", came="it still waits")
        expect_equal(len(ends), len(results), "how many waits ended")
        if not is_cancelled:  # a wait that begins after the end is one of a closed client
            wrong = sorted(set(ends) - {"ready", "ClosedError"})
            expect(not wrong, expected="results that are ready, or ClosedError", came=wrong)
        expect_equal(client.is_closed, True, "is_closed")


def _close(client: Any, is_cancelled: bool) -> None:
    if not is_cancelled:
        client.close()
        return
    try:
        client.close(cancel=True)  # of clients that can drop what has not begun
    except TypeError:
        client.close()


_SLOW = """func.func @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = stablehlo.dot %a, %a : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %1 = stablehlo.dot %0, %a : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %1 : tensor<256x256xf32> }"""
