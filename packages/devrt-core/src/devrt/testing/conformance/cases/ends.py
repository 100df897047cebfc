"""How processes end: with everything alive, in the middle of work, and by forks."""

from __future__ import annotations

import os

from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import require
from devrt.testing.conformance.material import expect_printed
from devrt.testing.conformance.subject import Subject

CLOSE = "Client.close: wait for the work in flight and give all memory back. Idempotent."


@case(
    "memory",
    "a process ends well with buffers, views and the client alive",
    contract=CLOSE,
)
def exit_with_all_alive(subject: Subject) -> None:
    program = """
        buffer = client.buffer_from_pyval(np.arange(8, dtype=np.float32)); view = np.asarray(buffer)
        clone, memory = buffer.clone(), device.default_memory()
        raw = np.zeros((1 << 20) + 64, np.uint8); lent = raw[-raw.ctypes.data % 64:][: 1 << 20]
        zero_copy = client.buffer_from_pyval(lent, None, False, 2)
        class Cycle: pass
        cycle = Cycle(); cycle.all = [cycle, buffer, client]
        print("end")
    """
    expect_printed(subject, program, "end\n")


@case(
    "memory",
    "a process ends well after its client was closed",
    contract=CLOSE,
)
def exit_after_close(subject: Subject) -> None:
    program = """
        buffer = client.buffer_from_pyval(np.arange(8, dtype=np.float32)); view = np.asarray(buffer)
        client.close(); client.close()
        print(view[7], client.is_closed)
    """
    expect_printed(subject, program, "7.0 True\n")


@case(
    "memory",
    "a process ends well with transfers in flight",
    contract="Client.buffer_from_pyval: does not wait for the device. " + CLOSE,
)
def exit_in_flight(subject: Subject) -> None:
    program = """
        host = np.ones(1 << 20, np.float32)
        made = [client.buffer_from_pyval(host.copy(), None, False, 1) for _ in range(8)]
        made += [b.copy_to_memory(device.addressable_memories()[-1]) for b in made]
        for _ in range(4): client.buffer_from_pyval(host.copy(), None, False, 1)
        print("end", flush=True)
        sys.exit(0)
    """
    expect_printed(subject, program, "end\n")


@case(
    "memory",
    "a process ends well while daemon threads use the client",
    contract="Client: all members may be called from any thread.",
)
def exit_under_threads(subject: Subject) -> None:
    program = """
        import contextlib
        from devrt.errors import DevrtError
        client.buffer_from_pyval(np.zeros(3, np.uint8))  # what is imported at first is there now
        inside = threading.Barrier(4)
        def work():
            source = np.zeros(1 << 22, np.uint8)
            inside.wait()
            with contextlib.suppress(DevrtError):  # the client may be closed before the thread ends
                while True:
                    client.buffer_from_pyval(source).block_until_ready()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        inside.wait()
        print("end", flush=True)
    """
    expect_printed(subject, program, "end\n")


FORK = "errors.ForkedError: a forked process used what stayed in its parent: clients."
FORKED = """
import signal
from devrt.errors import ForkedError
source = np.arange(1 << 18, dtype=np.int32)
buffer = client.buffer_from_pyval(source, None, False, 1)
clone = buffer.clone()
"""


def _expect_forks_print(subject: Subject, program: str, expected: str) -> None:
    """Run a program that forks, after `FORKED`; fail unless it prints this."""
    require(hasattr(os, "fork"), "there is no os.fork on this system")
    expect_printed(subject, FORKED + program, expected)


@case(
    "memory",
    "a forked child is refused with a typed error, and its parent goes on",
    contract=FORK,
)
def forked_child_is_refused(subject: Subject) -> None:
    program = """
child = os.fork()
if not child:
    signal.alarm(20)  # a hang ends as a failure
    came = []
    for use in (
        lambda: client.buffer_from_pyval(source), lambda: np.asarray(buffer),
        buffer.block_until_ready, buffer.clone,
        lambda: buffer.copy_to_memory(device.default_memory()),
    ):
        try: use()
        except ForkedError: came.append("ForkedError")
        except BaseException as error: came.append(type(error).__name__)
        else: came.append("no error")
    os.write(1, (" ".join(sorted(set(came))) + chr(10)).encode())
    buffer.delete()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(np.asarray(buffer)[-1]), flush=True)
"""
    _expect_forks_print(subject, program, f"ForkedError\n0 {(1 << 18) - 1}\n")


@case(
    "memory",
    "a child forked from a busy process ends as any other",
    contract=FORK,
)
def forked_child_ends_normally(subject: Subject) -> None:
    program = """
stop = threading.Event()
def work():
    while not stop.is_set():
        client.buffer_from_pyval(source[:4096]).block_until_ready()
thread = threading.Thread(target=work)
thread.start()
statuses = set()
for _ in range(3):
    child = os.fork()
    if not child:
        signal.alarm(20)
        del buffer, clone, client, device
        gc.collect()
        sys.exit(0)
    statuses.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
thread.join()
print(statuses)
"""
    _expect_forks_print(subject, program, "{0}\n")
