"""Programs over processes that are not the same in each: an error in all, and no wrong result."""

import json

import pytest

pytest.importorskip("devrt_cpu")
pytest.importorskip("devrt_cpu._library").describe(None)

SETUP = """
from devrt import lax
from devrt.sharding import Mesh, NamedSharding, PartitionSpec as P
line = Mesh(np.array(devrt.devices()), ("i",))
rows = NamedSharding(line, P("i"))
def put(x, sharding=rows): return devrt.make_array_from_process_local_data(sharding, x)
def total(f, mesh=line):
    return devrt.jit(devrt.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P()))
ones = np.ones((1, 4), np.float32)
def gives(f, x): return np.asarray(total(f)(x)).tolist()
"""

DIFFER = (
    SETUP
    + """
psum = lambda x: lax.psum(x, "i")
pmax = lambda x: lax.pmax(x, "i")
def named(x): return lax.psum(x, "i")
turned = Mesh(np.array(devrt.devices()[::-1]), ("i",)) if me == 1 else line
second = me == 1
cases = {
    "dtypes": lambda: total(psum)(put(np.ones((1, 4), np.float32 if second else np.int32))),
    "shapes": lambda: total(psum)(put(np.ones((1, 3 + second), np.float32))),
    "operations": lambda: total(pmax if second else psum)(put(ones)),
    "counts": lambda: total((lambda x: psum(psum(x) + x)) if second else (lambda x: psum(x) + 1))(
        put(ones)),
    "constants": lambda: total((lambda x: psum(x * 2)) if second else (lambda x: psum(x * 3)))(
        put(ones)),
    "loops": lambda: total(lambda x: lax.fori_loop(0, 3 + second, lambda i, c: psum(c), x))(
        put(ones)),
    "devices": lambda: total(lambda x: psum(x) + 2, turned)(
        put(ones, NamedSharding(turned, P("i")))),
    "names": lambda: total(named if second else psum)(put(ones)),
}
found = {name: refused(case) for name, case in cases.items()}
same = gives(lambda x: psum(x) * 2, put(ones))
show(found=found, same=same)
"""
)
EXPECTED = {
    "dtypes": ("argument 0", "int32[", "float32["),
    "shapes": ("argument 0", ",3]", ",4]"),
    "operations": ("collective 0", "all_reduce add", "all_reduce max"),
    "counts": ("collective 1 / operation 0", "the program ends", "all_reduce add"),
    "constants": ("operation", "dense<3.0>", "dense<2.0>"),
    "loops": ("operation", "dense<3>", "dense<4>"),
    "devices": ("its devices", "[0, 1", "1, 0]"),
    "names": ("its name", "<lambda>", "named"),
}


@pytest.mark.parametrize("engine", ["store", None])
@pytest.mark.parametrize("count", [2, 3])
def test_programs_that_differ_are_an_error_in_every_process(launch, engine, count):
    environ = {"DEVRT_CPU_COLLECTIVES_IMPLEMENTATION": engine} if engine else {}
    printed, done = launch(count, DIFFER, DEVRT_NUM_CPU_DEVICES="1", **environ)
    assert (done.returncode, done.stderr) == (0, "")
    for (line,) in printed:
        shown = json.loads(line)
        assert shown["same"] == [[2.0 * count] * 4]
        for case, (what, *_) in EXPECTED.items():
            text = shown["found"][case]
            assert text.startswith("InvalidArgumentError: program "), (case, text)
            assert "differs between processes 0 and 1" in text
            assert case not in ("operations", "counts", "loops") or "/script.py:" in text
            if case != "counts":
                assert what in text, (case, text)
                left, _, right = text.partition("process 1 has ")
                if count == 2 or case != "devices":
                    mine, theirs = EXPECTED[case][1:]
                    assert mine in left
                    assert theirs in right
        assert printed[0] == [line]


AGAIN = (
    SETUP
    + """
f = lambda x: lax.psum(x * 5, "i")
x = put(ones)
found = [gives(f, x)]
if me == 1: devrt.clear_caches()
found += [np.asarray(devrt.jit(devrt.shard_map(
    f, mesh=line, in_specs=P("i"), out_specs=P()))(x)).tolist() for _ in range(2)]
show(found=found)
"""
)


def test_a_process_that_makes_a_program_anew_does_not_wait_for_the_others(launch):
    printed, done = launch(2, AGAIN, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for (line,) in printed:
        assert json.loads(line)["found"] == [[[10.0] * 4]] * 3


ABSENT = (
    SETUP
    + """
from devrt.distributed import agreeing
agreeing._SECONDS = 0.5
x = put(ones)
program = total(lambda x: lax.psum(x, "i"))
if me == 0:
    show(late=refused(lambda: program(x)))
client.wait_at_barrier("late", 60000)
agreeing._SECONDS = 60
show(then=np.asarray(program(x)).tolist())
"""
)


def test_a_process_that_does_not_come_to_run_a_program_is_named(launch):
    printed, done = launch(2, ABSENT, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    late, then = map(json.loads, printed[0])
    assert "DeadlineExceededError: program '<lambda>' of process 0 waited" in late["late"]
    assert "for process 1, which has not come" in late["late"]
    assert then == json.loads(printed[1][0]) == {"then": [[2.0] * 4]}


WHOLE = (
    SETUP
    + """
show(refused=refused(lambda: devrt.device_put(put(ones), NamedSharding(line, P()))),
     indexed=refused(lambda: put(ones)[0]))
"""
)


def test_placing_parts_of_other_processes_names_the_gathering(launch):
    printed, done = launch(2, WHOLE, DEVRT_NUM_CPU_DEVICES="1")
    assert (done.returncode, done.stderr) == (0, "")
    for (line,) in printed:
        text = json.loads(line)["refused"]
        assert "InvalidArgumentError: this array of shape (2, 4) spans processes" in text
        assert "multihost_utils.process_allgather" in text
        assert "overlap" not in text
        indexed = json.loads(line)["indexed"]
        assert indexed.startswith("UnimplementedError: getitem is to run on the devices of several")
