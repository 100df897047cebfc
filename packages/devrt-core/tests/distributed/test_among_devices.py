"""Collectives between devices that processes have in any numbers, against NumPy."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from devrt.distributed.collectives import HostCollectives
from devrt.distributed.collectives.among_devices import Exchange, Plan
from devrt.errors import UnimplementedError

OWNERS = [0, 0, 0, 1, 2, 2]
"""Three processes, of three devices, one and two."""


class Threads(HostCollectives):
    """Processes that are threads of this one."""

    def __init__(self, rank, size, table, barrier):
        super().__init__(rank, size, checks=True)
        self._table, self._barrier = table, barrier

    def gather_bytes(self, x):
        self._table[self.rank] = x.copy()
        self._barrier.wait(20)
        rows = np.stack([self._table[rank] for rank in range(self.size)])
        self._barrier.wait(20)
        return rows

    def reduce_numbers(self, x, op):
        rows = self.gather_bytes(x.view(np.uint8)).view(x.dtype)
        return {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[
            op
        ].reduce(rows)

    def exchange_bytes(self, rows):
        found = self.gather_bytes(rows.reshape(-1))
        return found.reshape(self.size, self.size, -1)[:, self.rank].copy()

    def permute_bytes(self, x, pairs):
        rows = self.gather_bytes(x)
        found = [rows[a] for a, b in pairs if b == self.rank]
        return found[0] if found else np.zeros_like(x)

    def broadcast_bytes(self, x, root):
        raise NotImplementedError

    def send_bytes(self, x, to, tag):
        raise NotImplementedError

    def receive_bytes(self, count, source, tag):
        raise NotImplementedError

    def end(self):
        return


def exchanged(plan, arrays, shape):
    """Return what each device gets, where every process is a thread."""
    lock, shared = threading.Lock(), {}
    results = {device: np.full(shape, 77, x.dtype) for device, x in arrays.items()}

    def run(me):
        def connect(processes):
            with lock:
                table, barrier = shared.setdefault(
                    processes, ({}, threading.Barrier(len(processes)))
                )
            return Threads(processes.index(me), len(processes), table, barrier)

        mine = [device for device, owner in enumerate(OWNERS) if owner == me]
        own = {device: arrays[device] for device in mine}
        made = Exchange(plan, OWNERS, me, connect)
        for _ in range(2):  # it is run as often as a program does it
            made.run(own, {device: results[device] for device in mine})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    return results


def arrays(shape, dtype=np.int32):
    made = np.random.default_rng(3).integers(-50, 50, (6, *shape))
    return dict(enumerate(made.astype(dtype)))


GROUPS = [
    pytest.param([(0, 1, 2, 3, 4, 5)], id="all"),
    pytest.param([(5, 0, 3), (4, 2, 1)], id="across"),
    pytest.param([(0, 1, 2), (3, 4, 5)], id="inside-and-across"),
    pytest.param([(0, 3), (1, 4), (2, 5)], id="pairs-of-processes"),
]


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize(
    ("op", "function"),
    [("add", np.add), ("maximum", np.maximum), ("minimum", np.minimum), ("multiply", np.multiply)],
)
def test_reductions(groups, op, function):
    given = arrays((2, 12))
    found = exchanged(Plan("all_reduce", op, tuple(groups), 0, 0), given, (2, 12))
    for group in groups:
        total = function.reduce([given[device] for device in group])
        for device in group:
            np.testing.assert_array_equal(found[device], total)
    width = 12 // len(groups[0])
    found = exchanged(Plan("reduce_scatter", op, tuple(groups), 1, 0), given, (2, width))
    for group in groups:
        total = function.reduce([given[device] for device in group])
        for part, device in zip(np.split(total, len(group), 1), group, strict=True):
            np.testing.assert_array_equal(found[device], part)


@pytest.mark.parametrize("groups", GROUPS)
def test_movements(groups):
    given, width = arrays((2, 12)), len(groups[0])
    found = exchanged(Plan("all_gather", "", tuple(groups), 1, 0), given, (2, 12 * width))
    for group in groups:
        for device in group:
            expected = np.concatenate([given[source] for source in group], 1)
            np.testing.assert_array_equal(found[device], expected)
    shape = (2 * width, 12 // width)
    found = exchanged(Plan("all_to_all", "", tuple(groups), 1, 0), given, shape)
    for group in groups:
        for at, device in enumerate(group):
            pieces = [np.split(given[source], width, 1)[at] for source in group]
            np.testing.assert_array_equal(found[device], np.concatenate(pieces))


@pytest.mark.parametrize(
    "pairs",
    [
        [(k, (k + 1) % 6) for k in range(6)],
        [(0, 4), (1, 5), (4, 0)],  # two between the same processes
        [(0, 1), (2, 3)],
        [(3, 3)],
        [],
    ],
)
def test_permutations(pairs):
    given = arrays((3,))
    found = exchanged(Plan("collective_permute", "", tuple(pairs), 0, 0), given, (3,))
    sources = {target: source for source, target in pairs}
    for device in range(6):
        expected = given[sources[device]] if device in sources else np.zeros(3)
        np.testing.assert_array_equal(found[device], expected)


def test_largest_of_what_is_no_number():
    given = arrays((4,), np.float32)
    given[3][1] = np.nan
    plan = Plan("all_reduce", "maximum", (tuple(range(6)),), 0, 0)
    for result in exchanged(plan, given, (4,)).values():
        np.testing.assert_array_equal(np.isnan(result), [False, True, False, False])


def test_what_no_engine_reduces():
    with pytest.raises(UnimplementedError, match="all_reduce xor"):
        Exchange(Plan("all_reduce", "xor", ((0,),), 0, 0), [0], 0, pytest.fail)
