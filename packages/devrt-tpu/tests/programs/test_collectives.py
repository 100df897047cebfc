"""Programs whose devices wait for each other: nothing that fails or is late may hang the client."""

import pytest

HEAD = '''
REDUCE = """
module @reduce attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%q: tensor<8xf32>) -> tensor<8xf32> {
    CALL
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}
      : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""
import time
from concurrent.futures import ThreadPoolExecutor
devices = client.devices()
PLAIN = REDUCE.replace("CALL", "").replace("%q", "%a")
reduce = client.compile_and_load(PLAIN, devices)
spread = [client.buffer_from_pyval(X, d) for d in devices]
def send(at):
    sent = client.create_buffers_for_async_host_to_device([((8,), "float32")], memory=devices[at])
    return sent, sent.retrieve_buffer(0)
def all_of(shards): return [np.asarray(shard)[7] for shard in shards]
def raised(use, *arguments):
    try: use(*arguments)
    except DevrtError as error: return type(error).__name__, error.message
    return "nothing", ""
'''


@pytest.fixture
def run(in_child):
    """Return what runs code after that in a child, and returns its last line."""
    return lambda code: in_child(f"{HEAD}\n{code}", timeout=90)


def test_many_at_once_come_to_an_end(run):
    output = run("""
chain = spread
for _ in range(300):
    (chain,) = reduce.execute_sharded([[shard for shard in chain]])
apart = [reduce.execute_sharded([spread])[0] for _ in range(300)]
for shards in [chain, *apart]:
    for shard in shards: shard.block_until_ready()
def work(_):
    for _ in range(50): assert all_of(reduce.execute_sharded([spread])[0]) == [28] * 4
with ThreadPoolExecutor(6) as pool: list(pool.map(work, range(6)))
print(all_of(apart[299]))
""")
    assert output == "[np.float32(28.0), np.float32(28.0), np.float32(28.0), np.float32(28.0)]"


def test_an_argument_that_failed_is_reported_and_nothing_hangs(run):
    output = run("""
sent, bad = send(2)
sent.set_buffer_error(0, 5, "the disk burned")
for _ in range(2):
    kind, message = raised(reduce.execute_sharded, [[*spread[:2], bad, spread[3]]])
print("the disk burned" in message, all_of(reduce.execute_sharded([spread])[0])[0])
""")
    assert output == "True 28.0"


def test_data_that_was_not_sent_is_requested(run):
    output = run("""
sent, late = send(1)
double = client.compile_and_load(ADD, [devices[1]])
(derived,) = double.execute([late, late])
copied = derived.copy_to_memory(devices[1].memory("pinned_host"))
for given in (late, derived, copied):
    kind, message = raised(reduce.execute_sharded, [[spread[0], given, *spread[2:]]])
    assert "Send its data first" in message, message
other, _ = send(3)  # nobody knows whether the arguments depend on this one, too
sent.transfer_data(0, X)
print(all_of(reduce.execute_sharded([[spread[0], derived, *spread[2:]]])[0])[3])
""")
    assert output == "35.0"


def test_the_interpreter_ends_although_data_never_comes(run):
    assert (
        run("""
sent, late = send(1)
wide = client.compile_and_load(ADD, devices)
arguments = [[spread[0], late, *spread[2:]], spread]
if wide._runner._one_by_one:
    made = wide.execute_sharded(arguments)
else:  # a library that begins a program once all its shards are there
    assert "has not come" in raised(wide.execute_sharded, arguments)[1]
print("end")
""")
        == "end"
    )


@pytest.mark.parametrize("end", ["client.close()", "del client", "pass"])
def test_a_call_that_fails_on_one_device_is_reported_on_all(run, end):
    output = run(f"""
from devrt_pjrt.connection import connection
connection._STUCK_MS = 500
calls = []
def once(a):
    calls.append(1)
    if len(calls) == 3: raise ValueError("the third")
    return a
client.register_custom_call("once", once)
text = REDUCE.replace(
    "CALL", "%a = stablehlo.custom_call @once(%q) {{api_version = 4 : i32}}"
    " : (tensor<8xf32>) -> tensor<8xf32>")
shards = client.compile_and_load(text, devices).execute_sharded([spread])[0]
output = sorted(raised(shard.block_until_ready)[0] for shard in shards)
output.append(raised(reduce.execute_sharded, [spread])[0])
{end}
print(*output)
""")
    assert output == " ".join(["DeviceLostError"] * 3 + ["InvalidArgumentError", "DeviceLostError"])


def test_slow_devices_without_a_collective_are_not_given_up(run):
    output = run("""
from devrt_pjrt.connection import connection
connection._STUCK_MS = 200
calls = []
def slow(a):
    calls.append(1)
    if len(calls) == 1: raise ValueError("the first")
    time.sleep(1)
    return a
client.register_custom_call("slow", slow)
text = ADD.replace(
    "stablehlo.add %a, %b :",
    "stablehlo.custom_call @slow(%a) {api_version = 4 : i32} : (tensor<8xf32>) ->")
shards = client.compile_and_load(text, devices).execute_sharded([spread, spread])[0]
output = sorted(raised(shard.block_until_ready)[0] for shard in shards)
print(*output, all_of(reduce.execute_sharded([spread])[0])[0])
""")
    assert output == "InvalidArgumentError nothing nothing nothing 28.0"


def test_a_client_that_is_collected_inside_a_call_of_its_own(run):
    output = run("""
import weakref
big = 1 << 18
text = (
    "module { func.func @main(%a: tensor<NxF>) -> tensor<NxF> { %b = stablehlo.tanh %a : "
    "tensor<NxF> %0 = stablehlo.custom_call @collect(%b) {api_version = 4 : i32} : "
    "(tensor<NxF>) -> tensor<NxF> return %0 : tensor<NxF> } }").replace("NxF", f"{big}xf32")
gone, entered = threading.Event(), threading.Event()
def collect(a):
    entered.wait(30); gc.collect(); gone.set(); return a
other = pjrt.make_client(pjrt.loaded_library("tested"), "tested", {"cpu_device_count": 1})
other.register_custom_call("collect", collect)
sent = other.create_buffers_for_async_host_to_device([((big,), "float32")])
made = other.compile_and_load(text).execute([sent.retrieve_buffer(0)])
sent.transfer_data(0, np.zeros(big, np.float32))
seen = weakref.ref(other)
gc.disable(); del other, sent, made; entered.set()
print(gone.wait(30), seen())
""")
    assert output == "True None"
