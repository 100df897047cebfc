"""Children of forks: their parent's part in a job is not theirs, and their end changes nothing."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

FORKS = """
import os, warnings
warnings.simplefilter("ignore")  # of Python itself, where a process has threads
client.key_value_set(f"of/{me}", "here")
read, write = os.pipe()
child = os.fork()
if child == 0:
    found = [refused(lambda: client.key_value_try_get("of/0")),
             refused(lambda: client.wait_at_barrier("b", 1000)),
             refused(distributed.shutdown),
             [distributed.global_state.service, distributed.global_state.collectives]]
    os.write(write, json.dumps(found).encode())
    sys.exit()  # with all that Python does at its end
os.close(write)
text = b"".join(iter(lambda: os.read(read, 65536), b""))
_, status = os.waitpid(child, 0)
client.wait_at_barrier("after", 60_000)
show(status=status, found=json.loads(text), still=client.key_value_try_get(f"of/{me}"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_child_of_a_fork_is_not_in_the_job(launch):
    printed, done = launch(2, FORKS)
    assert (done.returncode, done.stderr) == (0, "")
    for lines in printed:  # gRPC may have one of its own about the fork
        shown = json.loads(lines[-1])
        assert (shown["status"], shown["still"]) == (0, "here")
        got, met, left, parts = shown["found"]
        assert got.startswith("DistributedError: FAILED_PRECONDITION: this process is a fork of")
        assert met == got
        assert left == "None"
        assert parts == [None, None]


JOB_OF_A_CHILD = """
    import os, sys, warnings
    warnings.simplefilter("ignore")  # of Python itself, where a process has threads
    from devrt import xla_client
    def job():
        service = xla_client.get_distributed_runtime_service("localhost:0", 1)
        client = xla_client.get_distributed_runtime_client(service.address, 0, init_timeout=20)
        client.connect()
        client.key_value_set("k", "v")
        return service, client
    parents = job()
    child = os.fork()
    service, client = job() if child == 0 else parents
    if child:
        assert os.waitpid(child, 0)[1] == 0
    client.shutdown()
    service.shutdown()
    print("is alive" if service._thread.is_alive() else "has ended", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_a_job_of_a_child_ends_with_its_service():
    """gRPC, which such a child cannot use, keeps the service's thread no longer."""
    command = [sys.executable, "-c", textwrap.dedent(JOB_OF_A_CHILD)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "has ended\nhas ended\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "pending" not in done.stderr
