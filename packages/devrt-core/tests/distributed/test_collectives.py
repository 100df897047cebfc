"""Data exchanged between the processes of a job: every engine gives NumPy's answers."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.distributed import collectives
from devrt.distributed.collectives.reductions import check_reduction, finished, prepared, reduced
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError

CASES = """
from concurrent.futures import ThreadPoolExecutor
import ml_dtypes
from devrt.distributed import collectives
c = collectives.connect(ENGINE, timeout=60)
n, rank = c.size, c.rank
assert (c.engine, c.ranks) == (ENGINE, (rank,))
made = np.random.default_rng(3)
DTYPES = [np.int8, np.uint64, np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16]
for dtype in map(np.dtype, DTYPES):
    for shape in ((n,), (n * 3, 2), (n, 0)):
        xs = made.integers(1, 4, (n, *shape)).astype(dtype)
        ops = ["sum", "prod"] + (["min", "max"] if dtype.kind != "c" else [])
        ops += ["avg"]
        for op in ops:
            wide = xs.astype(np.complex128 if dtype.kind == "c" else np.float64)
            want = getattr(wide, op.replace("avg", "mean"))(axis=0).astype(dtype)
            (got,) = c.all_reduce([xs[rank]], op)
            assert (got.dtype, got.shape) == (dtype, shape)
            np.testing.assert_allclose(got.astype(wide.dtype), want.astype(wide.dtype), rtol=1e-2)
            (mine,) = c.reduce_scatter([xs[rank]], op, tiled=True)
            np.testing.assert_array_equal(mine, np.split(got, n)[rank])
        np.testing.assert_array_equal(c.all_gather([xs[rank]])[0], xs)
        (joined,) = c.all_gather([xs[rank]], tiled=True)
        np.testing.assert_array_equal(joined, np.concatenate(xs))
        blocks = [np.split(x, n)[rank] for x in xs]
        np.testing.assert_array_equal(c.all_to_all([xs[rank]])[0], np.concatenate(blocks))
        np.testing.assert_array_equal(c.broadcast([xs[rank]], n - 1)[0], xs[n - 1])
        ring = [(r, (r + 1) % n) for r in range(n)]
        np.testing.assert_array_equal(c.permute([xs[rank]], ring)[0], xs[rank - 1])
        zeros = np.zeros_like(xs[0])
        (got,) = c.permute([xs[rank]], [(0, n - 1)])
        np.testing.assert_array_equal(got, xs[0] if rank == n - 1 else zeros)
(one,) = c.reduce_scatter([np.arange(n) * (rank + 1)])
assert one.shape == () and one == rank * n * (n + 1) // 2
(both,) = c.all_reduce([np.array([rank == 0, True])], "min")
assert both.tolist() == [False, True]
for size in (1, 1000, 33_000, 120_000, 262_140, 262_145, 700_001, 33_000, 1):
    xs = made.standard_normal((n, size)).astype(np.float32)
    (got,) = c.all_reduce([xs[rank]])
    np.testing.assert_allclose(got, xs.sum(0), rtol=1e-4, atol=1e-4)
    (all_got,) = c.all_gather([got])
    assert all((row.view(np.int32) == got.view(np.int32)).all() for row in all_got)  # of all ranks
    pieces = np.split(xs[:, : size - size % n], n, axis=1)
    (swapped,) = c.all_to_all([np.concatenate([piece[rank] for piece in pieces])])
    np.testing.assert_array_equal(swapped, np.concatenate(list(pieces[rank])))
large = np.arange(3_000_000, dtype=np.float32)
np.testing.assert_array_equal(c.all_reduce([large])[0], large * n)
other = collectives.connect(ENGINE, name="other", timeout=60)
with ThreadPoolExecutor(2) as threads:
    groups = [(c, 1), (other, 2)][:: 1 - 2 * (rank % 2)]
    futures = {k: threads.submit(group.all_reduce, [large * k]) for group, k in groups}
    for k, future in futures.items():
        np.testing.assert_array_equal(future.result()[0], large * k * n)
other.close()
if rank == 0:
    c.send(np.arange(4.0), 1, tag=5)
    c.send(np.arange(3), 1)
if rank == 1:
    assert c.receive(np.zeros(4), 0, tag=5).tolist() == [0, 1, 2, 3]
    show(short=refused(lambda: c.receive(np.zeros(2, int), 0)))
show(shapes=refused(lambda: c.all_reduce([np.zeros(rank + 1)])))
show(operations=refused(lambda: c.all_reduce([large], "max") if rank else c.barrier()))
c.barrier()
c.close()
c.close()
assert c.is_closed
show(closed=refused(c.barrier))
"""


def check(printed):
    for me, lines in enumerate(printed):
        seen = {}
        for line in lines:
            seen |= json.loads(line)
        assert ("short" in seen) == (me == 1)
        assert "got 24 bytes of rank 0, and expected 16" in seen.get("short", printed[1][0])
        assert f"InvalidArgumentError: rank {me} asks for all_reduce sum of shape" in seen["shapes"]
        assert "for something else" in seen["operations"]
        assert seen["closed"].startswith("ClosedError: barrier failed")


def test_the_store_exchanges_everything(launch):
    printed, done = launch(3, CASES.replace("ENGINE", "'store'"))
    assert (done.returncode, done.stderr) == (0, "")
    check(printed)


@pytest.fixture
def gloo():
    """Need the optional library."""
    if "gloo" not in collectives.engines():
        pytest.skip("needs devrt-cpu built with Gloo")


@pytest.mark.usefixtures("gloo")
def test_gloo_exchanges_everything(launch):
    printed, done = launch(3, CASES.replace("ENGINE", "'gloo'"))
    assert (done.returncode, done.stderr) == (0, "")
    check(printed)


def test_mpi_exchanges_everything(launch_mpi, mpi_head):
    shown, done = launch_mpi(2, CASES.replace("ENGINE", "'mpi'"), head=mpi_head)
    assert (done.returncode, done.stderr) == (0, "")
    check(shown)


DIES = """
import os, signal
from devrt.distributed import collectives
c = collectives.connect(ENGINE, timeout=60)
c.barrier()
if me == 1:
    os.kill(os.getpid(), signal.SIGKILL)
print(refused(lambda: c.all_reduce([np.ones(4)])))
"""


@pytest.fixture
def started(tmp_path):
    """Start the processes of a job without a launcher, which would end them with the first."""
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    from devrt.distributed.ports import free_port

    def start(count, text, **how):
        path = tmp_path / "script.py"
        port = free_port("localhost")
        head = f"""
import sys
import numpy as np
from devrt import distributed
me = int(sys.argv[1])
distributed.initialize(
    "localhost:{port}", {count}, me, initialization_timeout=60, heartbeat_timeout_seconds=3
)
def refused(call):
    try: return repr(call())
    except Exception as error: return f"{{type(error).__name__}}: {{error}}"
"""
        path.write_text(head + text)
        return [
            subprocess.Popen(
                [sys.executable, str(path), str(n)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                **how,
            )
            for n in range(count)
        ]

    return start


def test_a_rank_that_dies_is_an_error_of_the_others(started):
    children = started(3, DIES.replace("ENGINE", "'store'"))
    outputs = [child.communicate(timeout=100) for child in children]
    assert children[1].returncode == -signal.SIGKILL
    for me in (0, 2):
        (error,) = outputs[me][0].splitlines()
        assert error.startswith("PeerLostError")
        assert "process 1" in error


@pytest.mark.usefixtures("gloo")
def test_a_rank_that_dies_breaks_connections_of_gloo(started):
    children = started(3, DIES.replace("ENGINE", "'gloo'"))
    outputs = [child.communicate(timeout=100) for child in children]
    for me in (0, 2):
        (error,) = outputs[me][0].splitlines()
        assert error.startswith("PeerLostError: all_gather over Gloo failed: a process is gone")


STALLS = """
import os, signal
from devrt.distributed import collectives
c = collectives.connect("gloo", timeout=600)
c.barrier()
print("ready", flush=True)
sys.stdin.readline()
print(refused(c.barrier))
print(refused(c.barrier))
"""


@pytest.mark.usefixtures("gloo")
def test_a_rank_that_is_stopped_is_an_error_of_the_others(started):
    children = started(3, STALLS, stdin=subprocess.PIPE)
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 3
    children[2].send_signal(signal.SIGSTOP)
    outputs = [child.communicate("\n", timeout=100)[0] for child in children[:2]]
    children[2].kill()
    children[2].communicate()
    for output in outputs:
        first, second = output.splitlines()
        assert first.startswith("PeerLostError: all_gather over Gloo failed")
        assert "Lost: process 2." in first
        assert second == first


@pytest.mark.usefixtures("gloo")
def test_the_end_of_the_service_names_the_process_that_had_it(started):
    children = started(3, STALLS, stdin=subprocess.PIPE)
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 3
    children[0].kill()
    outputs = [child.communicate("\n", timeout=100)[0] for child in children]
    for output in outputs[1:]:
        first, _ = output.splitlines()
        assert first.startswith("PeerLostError: all_gather over Gloo failed")
        assert "Lost: process 0. The job's service is gone too" in first


INTERRUPTED = """
import os, signal
from devrt.distributed import collectives
c = collectives.connect("gloo", timeout=2)
c.barrier()
if me == 0:
    own = c.gather_bytes
    def interrupted(x):
        found = own(x)
        signal.raise_signal(signal.SIGINT)  # as it comes in the middle of an operation
        return found
    c.gather_bytes = interrupted
    try: c.all_reduce([np.ones(3)])
    except KeyboardInterrupt: print("KeyboardInterrupt")
    c.gather_bytes = own
else:
    print(refused(lambda: c.all_reduce([np.ones(3)])))
print(refused(lambda: c.all_reduce([np.ones(4)])))
another = collectives.connect("gloo", timeout=60)
print(another.all_reduce([np.ones(1)]))
distributed.shutdown()
"""


@pytest.mark.usefixtures("gloo")
def test_an_interrupted_operation_ends_the_communicator_of_all(started):
    children = started(2, INTERRUPTED)
    (mine, _), (theirs, _) = [child.communicate(timeout=100) for child in children]
    first, second, third = mine.splitlines()
    assert first == "KeyboardInterrupt"
    assert second.startswith("DistributedError: all_reduce failed: an earlier operation of this")
    assert third == "[array([2.])]"
    ended, again, third = theirs.splitlines()
    assert ended.startswith("DistributedError: all_reduce over Gloo failed")
    assert "The job knows of no lost process: the communicator was closed in process 0" in ended
    assert again.startswith("DistributedError: all_reduce failed: an earlier operation of this")
    assert third == "[array([2.])]"


LATE = """
from devrt.distributed import collectives
g = collectives.connect(ENGINE, timeout=2)
g.barrier()
if me == 2:
    client.wait_at_barrier("late", 60_000)
    print("", refused(lambda: g.all_reduce([np.ones(3)])), flush=True)
else:
    print("", refused(lambda: g.all_reduce([np.ones(3)])), flush=True)
    client.wait_at_barrier("late", 60_000)
print("", refused(lambda: g.all_reduce([np.ones(3)])), flush=True)
g.close()
another = collectives.connect(ENGINE, name="another", timeout=60)
print("", another.all_reduce([np.ones(1)]))
"""


def test_a_deadline_of_the_store_ends_the_communicator_and_names_who_is_late(launch):
    printed, done = launch(3, LATE.replace("ENGINE", "'store'"))
    assert (done.returncode, done.stderr) == (0, "")
    for me, (first, second, third) in enumerate(printed):
        if me == 2:
            assert first.startswith(" DistributedError: an operation of this communicator ended in")
            assert "rank 0 (process 0)" in first
        else:
            words = (
                f" DeadlineExceededError: all_reduce of rank {me} waited 2 s for rank 2 (process 2)"
            )
            assert first.startswith(words)
        assert second.startswith(" DistributedError: all_reduce failed: an earlier operation of")
        assert third == " [array([3.])]"


@pytest.mark.usefixtures("gloo")
def test_a_deadline_of_gloo_is_no_lost_process_for_who_comes_late(launch):
    printed, done = launch(3, LATE.replace("ENGINE", "'gloo'"))
    assert (done.returncode, done.stderr) == (0, "")
    assert [lines[0].split(":")[0] for lines in printed] == [
        *[" DeadlineExceededError"] * 2,
        " DistributedError",
    ]
    assert "closed in one of processes 0-1" in printed[2][0]
    for _, second, third in printed:
        assert second.startswith(" DistributedError: all_reduce failed: an earlier operation of")
        assert third == " [array([3.])]"


REFUSED = """
from devrt.distributed import collectives
from devrt.errors import DistributedError
g = collectives.connect("store", timeout=60)
g.barrier()
own = client.key_value_delete
def refuses(key):
    raise DistributedError("refused")
client.key_value_delete = refuses
for _ in range(4):
    print("", refused(lambda: g.all_reduce([np.ones(3)])), flush=True)
client.key_value_delete = own
g.close()
"""


def test_an_error_of_the_service_ends_the_communicator(launch):
    printed, done = launch(2, REFUSED)
    assert (done.returncode, done.stderr) == (0, "")
    for first, *rest in printed:
        assert first.startswith(" DistributedError")
        assert all("failed: an earlier operation of this communicator" in line for line in rest)


def test_what_cannot_be_connected_says_why(monkeypatch):
    with pytest.raises(InvalidArgumentError, match=r"in none. Call devrt.distributed.initialize"):
        collectives.connect()
    with pytest.raises(InvalidArgumentError, match="above 0"):
        collectives.connect(timeout=0)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UnimplementedError, match="mpi4py"):
        collectives.connect("mpi")
    assert collectives.engines()[-1] == "store"


@pytest.mark.parametrize(
    ("dtype", "op", "error"),
    [
        ("f4", "xor", InvalidArgumentError),
        ("c8", "max", InvalidTypeError),
        ("?", "sum", InvalidTypeError),
        ("M8[s]", "sum", InvalidTypeError),
    ],
)
def test_what_cannot_be_reduced_is_refused(dtype, op, error):
    with pytest.raises(error):
        check_reduction(np.dtype(dtype), op)


@given(
    rows=st.lists(st.lists(st.integers(-100, 100), min_size=3, max_size=3), min_size=1, max_size=6),
    dtype=st.sampled_from(["i4", "f2", "f8"]),
)
def test_reductions_are_numpys(rows, dtype):
    xs = [np.array(row, dtype) for row in rows]
    for op in ("sum", "min", "max", "avg"):
        got = finished(reduced([prepared(x) for x in xs], op), xs[0].dtype, op, len(xs))
        assert got.dtype == xs[0].dtype
        want = getattr(np, op.replace("avg", "mean"))(np.stack(xs).astype("f8"), axis=0)
        np.testing.assert_array_equal(got, want.astype(dtype))
