"""Random sequences of faults: no hang, no lost acknowledged write, no process that is ended.

The seed decides the engine and the faults; what the processes do meanwhile is up to their machine.
"""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from etcd_servers import EtcdServers

WORKER = Path(__file__).with_name("fault_worker.py")
SIZE = 3
CALLS = 12  # that each process makes between two faults
PATIENCE = 60
LONGEST = 30.0  # seconds that a call may take: its own deadline, and that of the store
SEQUENCES = [("embedded", 0, 2)]  # in each run; engine, seed and faults
MORE = [(engine, seed, 5) for seed in range(1, 26) for engine in ("embedded", "etcd")]


class Worker:
    """A process of the job; a thread reads its lines."""

    def __init__(self, address, number, seed):
        command = [sys.executable, str(WORKER), address, str(number), str(seed)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.number = number
        self.is_stopped = False
        self.was_stopped = False
        self.rows = []
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def goes_on(self, calls):
        """Read some more lines; return whether there were so many, before it ended."""
        for _ in range(calls):
            row = self._next()
            if row is None:
                self._lines.put(None)
                return False
            self.rows.append(row)
        return True

    def _next(self):
        try:
            return self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            self.send("SIGUSR1")  # for its stacks
            self.send("SIGTERM")
            raise AssertionError(f"it hangs: {self.process.stderr.read()}") from None

    def send(self, name):
        os.kill(self.process.pid, getattr(signal, name))

    def finish(self):
        """End it as its user does; return its exit status."""
        self.process.stdin.close()
        while self.goes_on(1):
            pass
        self._reader.join()
        status = self.process.wait(PATIENCE)
        errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        assert status == 0, errors
        self.check()

    def check(self):
        for row in self.rows:
            assert row["what"] != "violation", row
            assert self.was_stopped or row["seconds"] < LONGEST, row

    def kill(self):
        self.process.kill()
        self._reader.join()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


class Story:
    """A job, its processes and servers, and the faults that are drawn."""

    def __init__(self, seed, engine):
        self.seed = seed
        self.draw = random.Random(seed)
        self.servers = EtcdServers(3) if engine == "etcd" else None
        address = self.servers.address(f"story{seed}") if self.servers else "localhost:0"
        self.service = xla_client.get_distributed_runtime_service(
            address, SIZE, heartbeat_timeout=2, shutdown_timeout=3, recoverable=True
        )
        self.workers = [self.started(number) for number in range(SIZE)]
        self.member = None  # that is down

    def started(self, number):
        return Worker(self.service.address, number, self.seed)

    def play(self, steps):
        """Play the whole; what is left at the end is ended by ``close``."""
        self.work()
        faults = [self.kill, self.stop, self.run]
        faults += [self.lose_member, self.stop_member] if self.servers else []
        for _ in range(steps):
            fault = self.draw.choice(faults)
            fault()
            self.work()
            self.heal()
        self.work()
        for worker in self.workers:
            worker.finish()

    def work(self):
        """Let each process that runs make calls; start another for one that was lost."""
        for index, worker in enumerate(self.workers):
            if worker.is_stopped:
                continue
            while not self.workers[index].goes_on(CALLS):
                self.workers[index].finish()
                self.workers[index] = self.started(index)

    def kill(self):
        index = self.draw.randrange(SIZE)
        self.workers[index].kill()
        # Its number is taken until its heartbeat is over: others see it lost first.
        self.workers[index - 1].goes_on(1)
        self.wait_until_lost(index)
        self.workers[index] = self.started(index)

    def wait_until_lost(self, index):
        gone = {"absent", "gone", "lost", "left"}
        while self.service.status()["processes"][index]["state"] not in gone:
            self.workers[index - 1].goes_on(1)

    def stop(self):
        worker = self.draw.choice(self.workers)
        worker.send("SIGSTOP")
        worker.is_stopped = worker.was_stopped = True

    def run(self):
        """No fault."""

    def lose_member(self):
        self.member = self.draw.randrange(3)
        self.servers.kill(self.member)

    def stop_member(self):
        member = self.draw.randrange(3)
        os.kill(self.servers.processes[member].pid, signal.SIGSTOP)
        self.work()
        os.kill(self.servers.processes[member].pid, signal.SIGCONT)

    def heal(self):
        if self.member is not None:
            self.servers.restart(self.member)
            self.member = None
        for worker in self.workers:
            if worker.is_stopped:
                worker.is_stopped = False
                worker.send("SIGCONT")

    def close(self):
        for worker in self.workers:
            worker.kill()
        self.service.shutdown()
        if self.servers:
            self.servers.close()


@pytest.mark.parametrize(
    ("engine", "seed", "steps"),
    [*SEQUENCES, *(pytest.param(*row, marks=pytest.mark.faults) for row in MORE)],
)
def test_a_random_sequence(engine, seed, steps):
    story = Story(seed, engine)
    try:
        story.play(steps)
    finally:
        story.close()
