"""Random work on three simulated devices, of which the first is lost at a random step.

Every result must have the right value, or the error of the loss where the lost device has a part in
it. Run with a seed and how many steps; prints what is wrong, which is nothing. It ends at once: a
machine with a lost device ends in no order.
"""

import os
import random
import sys
import threading

import numpy as np

import devrt
from devrt import lax
from devrt.errors import DeviceLostError, DevrtError
from devrt.sharding import NamedSharding, PartitionSpec
from gpu_library import Driver, Gated

COUNT = 1 << 10
GATED = 0x01010101
LOST = 0
KINDS = "double double add move move copy negate triple psum psum reduce read".split()
LONGEST_WAIT = 1.0  # seconds: a call that waits in the host would wait for the gate for ever

twice = devrt.jit(lambda x: x + x)
plus = devrt.jit(lambda x, y: x + y)
thrice = devrt.jit(lambda x: x * 3, donate_argnums=0)


class Value:
    """An array, what is in each of its elements, and which devices have a part in it."""

    def __init__(self, array, value, device, touched=()):
        self.array, self.value, self.device = array, value % (1 << 32), device
        self.touched = frozenset(touched) | {device}


class Work:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.devices = devrt.devices("cuda")
        self.driver = Driver()
        self.called_with, self.wrong = [], []
        self.sums, self.groups = {}, {}
        self.is_lost = False
        spec = devrt.ShapeDtypeStruct((COUNT,), np.int32)
        self.negative = devrt.jit(lambda x: devrt.pure_callback(self.negate, spec, x))
        self.values = [self.first(i) for i in range(len(self.devices))]
        self.gated = Gated(self.driver, COUNT)
        late = devrt.device_put(self.gated, may_alias=True)  # on the device that is lost
        self.values.append(Value(late, GATED, LOST))

    def first(self, i):
        made = twice(devrt.device_put(np.full(COUNT, i + 1, np.int32), self.devices[i]))
        return Value(made.block_until_ready(), 2 * (i + 1), i)

    def negate(self, x):
        self.called_with.append(np.unique(x))
        return -np.asarray(x)

    def pick(self, device=None):
        """Return one of the last values, or one on a device."""
        recent = [v for v in self.values[-12:] if device is None or v.device == device]
        return self.random.choice(recent or [v for v in self.values if v.device == device])

    def total(self, pair, parts):
        """Return the sums that a program over two devices makes, one on each."""
        if pair not in self.sums:
            mesh = devrt.make_mesh((2,), ("i",), devices=[self.devices[i] for i in pair])
            rows = PartitionSpec("i")
            program = devrt.shard_map(
                lambda x: lax.psum(x, "i"), mesh, in_specs=rows, out_specs=PartitionSpec()
            )
            self.sums[pair] = devrt.jit(program), NamedSharding(mesh, rows)
        program, sharding = self.sums[pair]
        whole = devrt.make_array_from_single_device_arrays((2 * COUNT,), sharding, parts)
        return [shard.data for shard in program(whole).addressable_shards]

    def reduced(self, pair, parts):
        """Return the same by a collective of the group of two devices."""
        if pair not in self.groups:
            devices = [self.devices[i] for i in pair]
            self.groups[pair] = devices[0].client.collectives(devices)
        return self.groups[pair].all_reduce(parts)

    def together(self, add_up):
        pair = tuple(sorted(self.random.sample(range(len(self.devices)), 2)))
        parts = [self.pick(i) for i in pair]
        touched = parts[0].touched | parts[1].touched
        value = parts[0].value + parts[1].value

        def call():
            sums = add_up(pair, [part.array for part in parts])
            return [Value(array, value, i, touched) for array, i in zip(sums, pair, strict=True)]

        return touched, call

    def copied(self, value, to):
        array = devrt.device_put(value.array, self.devices[to], may_alias=False)
        return Value(array, value.value, to, value.touched)

    def step(self):
        """Return which devices have a part in a random call, and the call."""
        kind = self.random.choice(KINDS)
        if kind in ("psum", "reduce"):
            return self.together(self.total if kind == "psum" else self.reduced)
        x = self.pick()
        y = self.pick(x.device)
        to = self.random.randrange(len(self.devices))
        touched = x.touched | {"add": y.touched, "move": {to}}.get(kind, set())

        def call():
            if kind == "read":
                return self.check(x) if self.gated.gate.is_set() else None
            if kind == "move":
                return [self.copied(x, to)]
            if kind == "copy":
                return [self.copied(x, x.device)]
            array, value = {
                "double": lambda: (twice(x.array), 2 * x.value),
                "add": lambda: (plus(x.array, y.array), x.value + y.value),
                "negate": lambda: (self.negative(x.array), -x.value),
                "triple": lambda: (thrice(self.copied(x, x.device).array), 3 * x.value),
            }[kind]()
            return [Value(array, value, x.device, touched)]

        return touched, call

    def check(self, value):
        try:
            found = np.unique(np.asarray(value.array).view(np.uint32))
        except DeviceLostError as error:
            self.check_loss(value.touched, error)
        else:
            if list(found) != [value.value]:
                self.wrong.append((list(found), value.value, sorted(value.touched)))

    def check_loss(self, touched, error):
        if LOST not in touched or not self.is_lost:
            self.wrong.append((sorted(touched), str(error)))

    def call(self, touched, call):
        opens = threading.Timer(LONGEST_WAIT, self.gated.gate.set)
        opens.daemon = True
        opens.start()
        try:
            self.values.extend(call() or ())
        except DeviceLostError as error:
            self.check_loss(touched, error)
        except DevrtError as error:
            # XLA's CPU client takes no more programs over devices once one could not be started.
            if not self.is_lost or "An earlier call on several devices" not in str(error):
                raise
        finally:
            opens.cancel()

    def run(self, steps):
        lost_at, opened_at = self.random.randrange(steps), self.random.randrange(steps)
        for i in range(steps):
            if i == lost_at:
                self.driver._library.devrt_simulator_lose(LOST)
                self.is_lost = True
            if i == opened_at:
                self.gated.gate.set()
            self.call(*self.step())
        self.gated.gate.set()
        for value in self.values:
            self.check(value)
        self.wrong += [found for found in self.called_with if len(found) != 1]
        self.wrong += self.driver.reports()


work = Work(int(sys.argv[1]))
work.run(int(sys.argv[2]))
sys.stdout.writelines(f"{each}\n" for each in work.wrong)
sys.stdout.flush()
os._exit(bool(work.wrong))
