"""What comes of the work of a simulated device that is lost, on the devices that go on.

Each test is a process of its own: a process has one simulated machine.
"""

import pytest

from support import python, xla_cpu_library

pytestmark = pytest.mark.engine

START = """
import os
import numpy as np
import devrt
from devrt import lax
from devrt.sharding import NamedSharding, PartitionSpec as P
from gpu_library import Driver, Gated

devices = devrt.devices("cuda")
driver = Driver()
count = 1 << 16
twice = devrt.jit(lambda x: x + x)

def on(device, value=1):
    made = devrt.device_put(np.full(count, value, np.int32), device)
    return twice(made).block_until_ready()  # its program is compiled

def show(name, array):
    try:
        print(name, np.unique(np.asarray(array)))
    except devrt.errors.DeviceLostError as error:
        print(name, "lost", error.data["device"])

ready = [on(device) for device in devices]
gated = Gated(driver, count)
late = devrt.device_put(gated, may_alias=True)  # on device 0
"""

CHAIN = (
    START
    + """
moved = devrt.device_put(late, devices[1])
doubled = twice(moved)
again = twice(doubled)
copied = devrt.device_put(again, devices[2])
total = twice(copied)
added = copied + ready[2]
healthy = twice(ready[1])
driver._library.devrt_simulator_lose(0)
gated.gate.set()
for name in ("healthy", "doubled", "again", "copied", "total", "added", "moved"):
    show(name, globals()[name])
show("after", twice(ready[1]))
for array in (doubled, again):
    try:
        show("late", twice(array))
    except devrt.errors.DeviceLostError as error:
        print("late lost", error.data["device"])
print(driver.reports(), flush=True)
os._exit(0)  # a device that is lost ends in no order
"""
)

SUMS = (
    START
    + """
def sums_on(devices):
    mesh = devrt.make_mesh((2,), ("i",), devices=devices)
    def total(x): return lax.psum(x, "i")
    rows = NamedSharding(mesh, P("i"))
    def whole(*parts): return devrt.make_array_from_single_device_arrays((2 * count,), rows, parts)
    return devrt.jit(devrt.shard_map(total, mesh, in_specs=P("i"), out_specs=P())), whole
"""
)

TOGETHER = (
    SUMS
    + """
summed, whole = sums_on(devices[1:3])
show("first", summed(whole(ready[1], ready[2])))
result = summed(whole(devrt.device_put(late, devices[1]), ready[2]))
copied = devrt.device_put(result.addressable_shards[1].data, devices[1])
driver._library.devrt_simulator_lose(0)
gated.gate.set()
for shard in result.addressable_shards:
    show("shard", shard.data)
show("copied", copied)
print(driver.reports(), flush=True)
os._exit(0)
"""
)

MEMBER = (
    SUMS
    + """
summed, whole = sums_on(devices[:2])
show("first", summed(whole(ready[0], ready[1])))
other = summed(whole(late, ready[1])).addressable_shards[1].data  # on device 1, which goes on
copied = devrt.device_put(other, devices[1], may_alias=False)
doubled = devrt.device_put(twice(other), devices[1], may_alias=False)
driver._library.devrt_simulator_lose(0)
gated.gate.set()
for name in ("other", "copied", "doubled"):
    show(name, globals()[name])
print(driver.reports(), flush=True)
os._exit(0)
"""
)

EXCHANGED = (
    START
    + """
group = devices[0].client.collectives(devices)
parts = group.all_reduce([late, *ready[1:]])
results = [twice(part) for part in parts[1:]]
driver._library.devrt_simulator_lose(0)
gated.gate.set()
for part in results:
    show("result", part)
print(driver.reports(), flush=True)
os._exit(0)
"""
)

CALLED = (
    START
    + """
import threading
seen = []
def negative(x):
    seen.append(int(x[0]))
    return -x
spec = devrt.ShapeDtypeStruct((count,), np.int32)
called = devrt.jit(lambda x: devrt.pure_callback(negative, spec, x))
show("before", called(ready[1]))
moved = devrt.device_put(late, devices[1])
def result():
    try:
        show("result", called(moved))
    except devrt.errors.DeviceLostError as error:
        print("refused", error.data["device"])
thread = threading.Thread(target=result)
thread.start()
thread.join(0.5)  # one that does not wait has begun by then
driver._library.devrt_simulator_lose(0)
gated.gate.set()
thread.join()
print(seen, driver.reports(), flush=True)
os._exit(0)
"""
)

OWN = (
    START
    + """
doubled = twice(late)
again = twice(doubled)
driver._library.devrt_simulator_lose(0)
gated.gate.set()
for name in ("doubled", "again"):
    show(name, globals()[name])
try:
    twice(ready[0])
except devrt.errors.DeviceLostError as error:
    print(error.operation, error.device, "The device is lost" in str(error))
show("other", twice(ready[1]))
os._exit(0)
"""
)

ARGUMENT = (
    START
    + """
made = twice(late)  # on device 0, whose program and the copy of its result have not begun
moved = devrt.device_put(made, devices[1])
result = COMPUTED
del moved
driver._library.devrt_simulator_lose(0)  # nobody meets that before the result is read
gated.gate.set()
show("result", result)
show("own", twice(ready[1]))
print(driver.reports(), flush=True)
os._exit(0)
"""
)

COMPUTED = {
    "one argument": "twice(moved)",
    "beside one of its own": "ready[1] + moved",
    "donated": "devrt.jit(lambda x: x + x, donate_argnums=0)(moved)",
    "through a loop": "devrt.jit(lambda x: lax.fori_loop(0, 3, lambda i, y: y + x, x))(moved)",
}

FIRST = """
import os
import numpy as np
import devrt
from gpu_library import Driver

devices = devrt.devices("cuda")
x, y = (devrt.device_put(np.ones(4, np.int32), device) for device in devices[:2])
y.block_until_ready()
Driver()._library.devrt_simulator_lose(0)  # which nobody has met before the first program
print(devrt.jit(lambda a: a + 1)(y))
try:
    devrt.jit(lambda a: a + 1)(x)
except devrt.errors.DeviceLostError as error:
    print(error.device)
os._exit(0)
"""

LEFT_OUT = """
import os
import numpy as np
import devrt
from devrt.errors import DevrtError
from devrt.runtime import default_runtime
from gpu_library import Driver

def sums(devices):
    ones = [devrt.device_put(np.ones(4, np.float32), device) for device in devices]
    values = [float(devrt.jit(lambda x: (x + x).sum())(each)) for each in ones]
    return [device.local_hardware_id for device in devices], values

print(sums(devrt.devices("cuda")))
Driver()._library.devrt_simulator_lose(1)
try:
    print(sums(devrt.devices("cuda")))
except devrt.errors.DeviceLostError as error:
    print(error.device)
if CLOSES:
    devrt.clear_backends()
try:
    default_runtime().make_client("cuda", {})
except DevrtError as error:
    print("DeviceLostError" in str(error), "cuda:1" in str(error))
    print("cuda_visible_devices or allowed_devices" in str(error))
given = {"allowed_devices": [0, 2]}
print(sums(default_runtime().make_client("cuda", given).local_devices()))
devrt.clear_backends()
devrt.config.update("cuda_visible_devices", "0,2")
print(sums(devrt.devices("cuda")))
os._exit(0)
"""

PIPELINE = (
    START
    + """
x = ready[0]
for step in range(1, 1001):
    x = devrt.device_put(twice(x), devices[step % 2])
x.block_until_ready()
print(driver.calls("cuEventCreate") < 500, driver.reports())
"""
)


def lines_of(script, devices=3):
    xla_cpu_library()
    ran = python(
        script,
        options=("-W", "ignore"),
        timeout=60,
        DEVRT_CUDA_MOCK=str(devices),
        DEVRT_GPU_SIMULATOR="delay=0",
    )
    return ran.stdout.splitlines()


def test_a_lost_device_fails_the_programs_of_others_that_its_work_reaches():
    failed = ("doubled", "again", "copied", "total", "added", "moved", "late", "late")
    lost = [f"{name} lost cuda:0" for name in failed]
    assert lines_of(CHAIN) == ["healthy [4]", *lost[:6], "after [4]", *lost[6:], "[]"]


def test_shards_that_exchange_fail_together():
    assert lines_of(TOGETHER) == [
        "first [4]",
        *["shard lost cuda:0"] * 2,
        "copied lost cuda:0",
        "[]",
    ]


def test_copies_of_what_a_program_with_a_lost_device_gave_fail():
    lost = [f"{name} lost cuda:0" for name in ("other", "copied", "doubled")]
    assert lines_of(MEMBER) == ["first [4]", *lost, "[]"]


def test_a_program_on_what_a_broken_collective_gave_fails():
    assert lines_of(EXCHANGED) == [*["result lost cuda:0"] * 2, "[]"]


def test_a_pipeline_over_devices_keeps_no_events_of_steps_that_have_ended():
    assert lines_of(PIPELINE) == ["True []"]


def test_functions_of_the_host_are_not_called_with_what_was_not_made():
    assert lines_of(CALLED) == ["before [-2]", "refused cuda:0", "[2] []"]


def test_programs_on_the_lost_device_itself_say_so():
    expected = ["doubled lost cuda:0", "again lost cuda:0", "execute cuda:0 True", "other [4]"]
    assert lines_of(OWN) == expected


@pytest.mark.parametrize("computed", COMPUTED.values(), ids=COMPUTED)
def test_a_result_of_what_was_copied_from_a_lost_device_says_so_itself(computed):
    expected = ["result lost cuda:0", "own [4]", "[]"]
    assert lines_of(ARGUMENT.replace("COMPUTED", computed), devices=2) == expected


def test_a_loss_before_the_first_program_leaves_the_others_theirs():
    assert lines_of(FIRST) == ["[2 2 2 2]", "cuda:0"]


@pytest.mark.parametrize("closes", [True, False])
def test_a_client_in_the_same_process_works_where_it_leaves_the_lost_device_out(closes):
    first, *refused, given, configured = lines_of(LEFT_OUT.replace("CLOSES", str(closes)))
    assert first == "([0, 1, 2], [8.0, 8.0, 8.0])"
    assert refused == ["cuda:1", "True True", "True"]
    assert given == configured == "([0, 2], [8.0, 8.0])"
