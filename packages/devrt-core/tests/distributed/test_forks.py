"""Children of forks: their parent's part in a job is not theirs, and their end changes nothing."""

import json
import os

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
