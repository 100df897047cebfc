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
from devrt.distributed.ports import free_port
from devrt.distributed.security import Security
from devrt.distributed.status import read_status
from etcd_servers import EtcdServers

SERVICE = """
import sys
import grpc.aio
from devrt import xla_client
print("ready", flush=True)
sys.stdin.readline()
service = xla_client.get_distributed_runtime_service(
    sys.argv[1], int(sys.argv[3]), heartbeat_timeout=2, shutdown_timeout=3, recoverable=True,
    journal=sys.argv[2])
print("listens", flush=True)
sys.stdin.read()
"""
WORKER = Path(__file__).with_name("fault_worker.py")
SIZE = 3
CALLS = 12  # that each process makes between two faults
PATIENCE = 60
LONGEST = 30.0  # seconds that a call may take: its own deadline, and that of the store
SEQUENCES = [("embedded", 0, 2)]  # in each run; engine, seed and faults
MORE = [(engine, seed, 5) for seed in range(1, 26) for engine in ("embedded", "etcd")]


class ServiceProcess:
    """The embedded service in a process of its own, with a journal: killed, another carries on."""

    def __init__(self, folder):
        self.address = f"localhost:{free_port()}"
        self._journal = str(folder / "journal")
        self._process = self._ready()
        self._begin()

    def replace(self):
        """Kill it; another that has imported all begins in its place."""
        process = self._ready()
        self.shutdown()
        self._process = process
        self._begin()

    def shutdown(self):
        with self._process:
            self._process.kill()

    def status(self):
        return read_status(self.address, Security(), seconds=PATIENCE)

    def _ready(self):
        command = [sys.executable, "-c", SERVICE, self.address, self._journal, str(SIZE)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes)
        assert process.stdout.readline() == "ready\n"
        return process

    def _begin(self):
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "listens\n"


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
            self.process.stderr.readline()  # it is about to write them
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

    def __init__(self, seed, engine, folder):
        self.seed = seed
        self.draw = random.Random(seed)
        self.servers = EtcdServers(3) if engine == "etcd" else None
        if self.servers is None:
            self.service = ServiceProcess(folder)
        else:
            self.service = xla_client.get_distributed_runtime_service(
                self.servers.address(f"story{seed}"),
                SIZE,
                heartbeat_timeout=2,
                shutdown_timeout=3,
                recoverable=True,
            )
        self.workers = [self.started(number) for number in range(SIZE)]
        self.member = None  # that is down

    def started(self, number):
        return Worker(self.service.address, number, self.seed)

    def play(self, steps):
        """Play the whole; what is left at the end is ended by ``close``."""
        self.work()
        faults = [self.kill, self.stop, self.run]
        if self.servers:
            faults += [self.lose_member, self.stop_member]
        else:
            faults += [self.replace_service] * 2
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
                self.wait_until_lost(index)
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

    def replace_service(self):
        self.service.replace()

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
def test_a_random_sequence(engine, seed, steps, tmp_path):
    story = Story(seed, engine, tmp_path)
    try:
        story.play(steps)
    finally:
        story.close()
