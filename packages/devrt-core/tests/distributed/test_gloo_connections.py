"""How connections over Gloo begin and end."""

import pytest

from devrt.distributed import collectives

pytest.importorskip("grpc", reason="needs the extra 'distributed'")
if "gloo" not in collectives.engines():
    pytest.skip("needs devrt-cpu built with Gloo", allow_module_level=True)

CONNECTS = """
import os, signal, threading
from devrt.distributed import collectives
if me == 0:
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        collectives.connect("gloo", timeout=30)
    except KeyboardInterrupt:
        show(seen="KeyboardInterrupt")
client.wait_at_barrier("over", 60_000)
"""


def test_an_interrupt_while_processes_connect_is_one(launch):
    printed, done = launch(2, CONNECTS)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed[0] == ['{"seen": "KeyboardInterrupt"}']


def test_a_process_that_does_not_connect_is_an_error_of_the_others(launch):
    printed, done = launch(
        2,
        """
        from devrt.distributed import collectives
        if me == 0:
            show(seen=refused(lambda: collectives.connect("gloo", timeout=1)))
        client.wait_at_barrier("over", 60_000)
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "DeadlineExceededError" in printed[0][0]


CLOSES = """
from devrt.distributed import collectives
for round_ in range(40):
    c = collectives.connect("gloo", name=f"r{round_}", timeout=20, checks=False)
    (got,) = c.all_gather([np.full(1 + 4000 * (round_ % 2), me, np.uint8)])
    c.close()  # others may still read what this one sent
    assert got.max(axis=1).tolist() == [0, 1, 2]
show(done=True)
"""


def test_a_rank_may_close_after_the_last_operation(launch):
    printed, done = launch(3, CLOSES)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed == [['{"done": true}']] * 3
