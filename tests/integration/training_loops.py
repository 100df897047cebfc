"""Training loops, `while True: x, = f(x)`, of every kind: run in a process of its own.

    python training_loops.py CLIENT LIBRARY STEPS SECONDS PATTERN...

``CLIENT`` is ``cpu`` or ``loader``, ``LIBRARY`` the engine's. A pattern is
``shape/donated|kept/DEVICES/FLOATS/THREADS``; a shape is ``chains`` (a program of one device, on
each device in turn), ``replicas``, ``sharded`` or ``collective``. Each runs for so many steps or
seconds, and prints a line. One that stops prints the stacks of all threads, and ends the process.
"""

import faulthandler
import sys
import threading
import time
from collections import deque
from typing import NamedTuple

import numpy as np

SILENCE = 60.0
"""Seconds beyond those of a pattern after which it counts as stopped: the machine may be busy."""
ALIVE = 16
"""Results that a loop keeps: a program's may wait in the meantime."""

REDUCE = """%s = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.maximum %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) {replica_groups = dense<[GROUP]> : tensor<1xCOUNTxi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (TYPE) -> TYPE"""
PROGRAM = """module @step attributes {HEAD} {
  func.func public @main(%a: TYPE {ATTRIBUTES}) -> (TYPE {SHARDING}) {
    BODY
    %one = stablehlo.constant dense<1.0> : TYPE
    %r = stablehlo.add SUM, %one : TYPE
    return %r : TYPE
  }
}"""


class Pattern(NamedTuple):
    """One kind of loop."""

    shape: str
    is_donated: bool
    devices: int
    floats: int
    threads: int

    @classmethod
    def parse(cls, text):
        """Return the pattern that a text names."""
        shape, kept, devices, floats, threads = text.split("/")
        return cls(shape, kept == "donated", int(devices), int(floats), int(threads))

    def __str__(self):
        kept = "donated" if self.is_donated else "kept"
        return f"{self.shape}/{kept}/{self.devices}/{self.floats}/{self.threads}"

    def program(self):
        """Return a program that adds one to each element."""
        count = 1 if self.shape == "chains" else self.devices
        is_split = self.shape == "sharded"
        is_talk = self.shape == "collective"
        parts = "replicas" if self.shape == "replicas" else "partitions"
        sharding = f'mhlo.sharding = "{{devices=[{count}]<=[{count}]}}"' if is_split else ""
        donation = "tf.aliasing_output = 0 : i32" if self.is_donated else ""
        words = {
            "BODY": REDUCE if is_talk else "",
            "SUM": "%s" if is_talk else "%a",
            "GROUP": str(list(range(count))),
            "COUNT": str(count),
            "HEAD": f"mhlo.num_{parts} = {count} : i32",
            "ATTRIBUTES": ", ".join(filter(None, (donation, sharding))),
            "SHARDING": sharding,
            "TYPE": f"tensor<{self.floats * (count if is_split else 1)}xf32>",
        }
        text = PROGRAM
        for name, value in words.items():
            text = text.replace(name, value)
        return text


def make_client(kind, library, devices):
    """Return a client of so many devices."""
    if kind == "cpu":
        from devrt_cpu import make_cpu_client

        return make_cpu_client(num_devices=devices, cpu_engine=library)
    import devrt_pjrt

    return devrt_pjrt.make_client(
        devrt_pjrt.library_for("loops", library), "loops", {"cpu_device_count": devices}
    )


class Loop:
    """One thread's."""

    def __init__(self, client, executables, pattern):
        self._executables, self._is_chain = executables, pattern.shape == "chains"
        zeros = np.zeros(pattern.floats, np.float32)
        self._x = [client.buffer_from_pyval(zeros, device) for device in client.devices()]
        self._alive = deque(maxlen=ALIVE)
        self.steps = 0
        self.failure = None

    def step(self):
        if self._is_chain:
            made = [f.execute([x])[0] for f, x in zip(self._executables, self._x, strict=True)]
        else:
            (made,) = self._executables[0].execute_sharded([self._x])
        self._alive.append(self._x)
        self._x = made
        self.steps += 1

    def run(self, steps, until):
        try:
            while self.steps < steps and time.monotonic() < until:
                self.step()
            for shard in self._x:
                np.testing.assert_array_equal(np.asarray(shard)[[0, -1]], self.steps)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failure = error


def run(pattern, kind, library, steps, seconds):
    """Run one pattern; returns what to print of it."""
    faulthandler.dump_traceback_later(seconds + SILENCE, exit=True)
    with make_client(kind, library, pattern.devices) as client:
        devices = list(client.devices())
        places = [[d] for d in devices] if pattern.shape == "chains" else [devices]
        executables = [client.compile_and_load(pattern.program(), place) for place in places]
        loops = [Loop(client, executables, pattern) for _ in range(pattern.threads)]
        begin = time.monotonic()
        threads = [
            threading.Thread(target=loop.run, args=(steps, begin + seconds), daemon=True)
            for loop in loops
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.monotonic() - begin
    faulthandler.cancel_dump_traceback_later()
    for loop in loops:
        if loop.failure is not None:
            raise loop.failure
    return f"{pattern}: {min(loop.steps for loop in loops)} steps in {taken:.1f} s"


if __name__ == "__main__":
    kind, library, steps, seconds, *patterns = sys.argv[1:]
    for text in patterns:
        sys.stderr.write(f"{text}\n")  # the last one is the one that stops
        sys.stderr.flush()
        output = run(Pattern.parse(text), kind, library, int(steps), float(seconds))
        sys.stdout.write(f"{output}\n")
        sys.stdout.flush()
