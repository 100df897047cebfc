"""Collectives of one program that do not need each other's results are under way at once."""

import json

import pytest

pytest.importorskip("devrt_cpu")
pytest.importorskip("devrt_cpu._library").describe(None)

SETUP = """
import threading
from devrt import lax, xla_client
from devrt.distributed import collectives
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P

class Own:
    "Connections that say when an exchange begins, and may hold it back."
    ended, began, second = [], [], threading.Event()
    def make_communicator(self, processes, rank):
        number = len(made)
        connection = collectives.connect("store", name=f"own{number}", checks=False)
        reduce = connection.all_reduce_in_place
        def all_reduce_in_place(x, op="sum"):
            Own.began.append(number)
            if holds(number):
                assert Own.second.wait(60), "the second collective did not end"
            reduce(x, op)
            Own.ended.append(number)
            if number == 1:
                Own.second.set()
        connection.all_reduce_in_place = all_reduce_in_place
        made.append(connection)
        return connection

made = []
def holds(number): return me == 0 and number == 0
own = xla_client.make_cpu_client(
    distributed_client=client, node_id=me, num_nodes=2, num_devices=COUNT, collectives=Own())
line = Mesh(np.array(own.devices()), ("i",))
def mapped(f):
    x = np.arange(4 * len(own.devices()), dtype=np.int32)
    a = devrt.make_array_from_callback(x.shape, NamedSharding(line, P("i")), lambda i: x[i])
    program = devrt.jit(devrt.shard_map(f, line, in_specs=P("i"), out_specs=P()))
    result = [np.asarray(each).tolist() for each in program(a)]
    return result, x.reshape(-1, 4)
"""

HELD = """
result, rows = mapped(lambda x: (lax.psum(x, "i") * 2, lax.psum(x % 3, "i") + 1))
assert result == [(rows.sum(0) * 2).tolist(), ((rows % 3).sum(0) + 1).tolist()], result
show(ended=Own.ended)
"""


@pytest.mark.parametrize("count", [1, 2])
def test_the_second_collective_ends_while_the_first_is_held(launch, count):
    printed, done = launch(2, SETUP.replace("COUNT", str(count)) + HELD)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(printed[0][0])["ended"] == [1, 0]


IN_TURN = """
def holds(number): return False
def f(x):
    first = lax.psum(x, "i")
    return first, lax.psum(first % 5, "i")
result, rows = mapped(f)
total = rows.sum(0)
assert result == [total.tolist(), (total % 5 * len(own.devices())).tolist()], result
show(ended=Own.ended, connections=len(made))
"""


def test_a_collective_of_another_s_result_comes_after_it_and_shares_its_connection(launch):
    printed, done = launch(2, SETUP.replace("COUNT", "2") + IN_TURN)
    assert (done.returncode, done.stderr) == (0, "")
    for lines in printed:
        assert json.loads(lines[0]) == {"ended": [0, 0], "connections": 1}


FAILS = """
def holds(number):
    if number == 1:
        raise ValueError("planted")
def failed(x):
    return lax.psum(x, "i"), lax.psum(x % 3, "i"), lax.pmax(x, "i")
show(error=refused(lambda: mapped(failed)), again=refused(lambda: mapped(failed)))
"""


def test_the_error_of_one_under_way_is_the_program_s(launch):
    printed, done = launch(2, SETUP.replace("COUNT", "2") + FAILS)
    assert done.returncode == 0, done.stderr
    for lines in printed:
        assert all("planted" in error for error in json.loads(lines[0]).values())
