"""Jobs of real processes."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from devrt import xla_client
from devrt.runtime import Runtime, set_default_runtime
from devrt.sharding import Mesh

JOIN = """
import json, sys
import numpy as np
import devrt
from devrt import distributed
distributed.initialize(initialization_timeout=60)
client, me = distributed.global_state.client, distributed.global_state.process_id
def show(**what): print(json.dumps(what), flush=True)
def refused(call):
    try: return repr(call())
    except Exception as error: return f"{type(error).__name__}: {error}"
"""

MPI_HEAD = """
import json, os, sys
import numpy as np
from mpi4py import MPI
def show(**what):
    "Write to a file: a launcher may print the lines of several processes as one."
    with open(os.path.join(FOLDER, f"shown{MPI.COMM_WORLD.rank}"), "a") as out:
        print(json.dumps(what), file=out)
def refused(call):
    try: return repr(call())
    except Exception as error: return f"{type(error).__name__}: {error}"
"""
MPI_JOIN = (
    MPI_HEAD
    + """
import devrt
from devrt import distributed
distributed.initialize(
    initialization_timeout=60, heartbeat_timeout_seconds=3, cluster_detection_method="mpi4py")
client, me = distributed.global_state.client, distributed.global_state.process_id
assert me == MPI.COMM_WORLD.rank
"""
)


@pytest.fixture
def mpi_head():
    """What a script without a job begins with."""
    return MPI_HEAD


@pytest.fixture(scope="module")
def client():
    """Return a client of four devices, for what needs no job."""
    with xla_client.make_cpu_client(num_devices=4) as made:
        yield made


@pytest.fixture(scope="module")
def mesh(client):
    return Mesh(np.array(client.devices()).reshape(2, 2), ("a", "b"))


@pytest.fixture
def unused_runtime():
    """Have a default runtime that has made no client, whatever other tests did."""
    with Runtime() as runtime:
        former = set_default_runtime(runtime)
        yield runtime
        set_default_runtime(former)


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """Run a script as the processes of one job; return what each printed, and the job's result."""
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")

    def run(count, text, *, ends=True, within=(), **environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        path = tmp_path / "script.py"
        end = "\ndistributed.shutdown()\n" if ends else ""
        path.write_text(JOIN + textwrap.dedent(text) + end)
        command = [sys.executable, "-m", "devrt", "launch", "-n", str(count), str(path)]
        done = subprocess.run([*within, *command], capture_output=True, text=True, timeout=120)
        lines = done.stdout.splitlines()
        printed = [[x.removeprefix(f"[{n}] ") for x in lines if x.startswith(f"[{n}] ")]
                for n in range(count)]  # fmt: skip
        return printed, done

    return run


@pytest.fixture
def launch_apart(tmp_path):
    """Run a script as the processes of one job, where a launcher would end all with the first."""
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    from devrt.distributed.ports import free_port

    def run(count, text, *, recoverable=False, **environ):
        path = tmp_path / "script.py"
        soon = f"initialize(heartbeat_timeout_seconds=3, recoverable={recoverable}, "
        path.write_text(JOIN.replace("initialize(", soon) + textwrap.dedent(text))
        job = {"COORDINATOR_ADDRESS": f"localhost:{free_port('localhost')}", "NUM_PROCESSES": count}
        children = [
            subprocess.Popen(
                [sys.executable, str(path)],
                env={**os.environ, **environ, "DEVRT_PROCESS_ID": str(number)}
                | {f"DEVRT_{name}": str(value) for name, value in job.items()},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(count)
        ]
        done = [child.communicate(timeout=120) for child in children]
        return [out.splitlines() for out, _ in done], [child.returncode for child in children]

    return run


def remove_unused_segments():
    """Remove what killed processes of MPICH left in shared memory: each some megabytes."""
    segments = set(Path("/dev/shm").glob("mpich_shm_*"))
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            text = maps.read_text()
            segments = {segment for segment in segments if str(segment) not in text}
    for segment in segments:
        with contextlib.suppress(OSError):
            segment.unlink()


@pytest.fixture
def launch_mpi(tmp_path):
    """Run a script as processes of MPI's launcher; return what each showed, and the launcher."""
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    launcher = beside if os.path.exists(beside) else shutil.which("mpiexec")
    if importlib.util.find_spec("mpi4py") is None or launcher is None:
        pytest.skip("needs mpi4py and an mpiexec")

    def run(count, text, options=(), within=(), *, head=MPI_JOIN, **environ):
        path = tmp_path / "script.py"
        path.write_text(head.replace("FOLDER", repr(str(tmp_path))) + textwrap.dedent(text))
        for number in range(count):
            (tmp_path / f"shown{number}").write_text("")
        command = [launcher, *options, "-n", str(count), *within, sys.executable, str(path)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=180, env={**os.environ, **environ}
        )
        remove_unused_segments()
        shown = [(tmp_path / f"shown{number}").read_text() for number in range(count)]
        return [each.splitlines() for each in shown], done

    run.launcher = launcher
    return run
