"""Jobs of real processes."""

import os
import subprocess
import sys
import textwrap

import pytest

from devrt.runtime import Runtime, set_default_runtime

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

    def run(count, text, *, ends=True, **environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        path = tmp_path / "script.py"
        end = "\ndistributed.shutdown()\n" if ends else ""
        path.write_text(JOIN + textwrap.dedent(text) + end)
        command = [sys.executable, "-m", "devrt", "launch", "-n", str(count), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
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

    def run(count, text, **environ):
        path = tmp_path / "script.py"
        soon = "initialize(heartbeat_timeout_seconds=3, "
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
