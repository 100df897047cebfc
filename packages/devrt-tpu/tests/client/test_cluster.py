"""Clients of several processes: a plugin's key-value callbacks, driven by a plugin made for it."""

import os
import subprocess
import sys

import pytest

STORE = """
import threading
class Store:
    def __init__(self): self.values, self.changed = {}, threading.Condition()
    def key_value_set(self, key, value, allow_overwrite=False):
        with self.changed:
            self.values[key] = value; self.changed.notify_all()
    def blocking_key_value_get(self, key, timeout_in_ms):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, timeout_in_ms / 1000):
                raise TimeoutError(f"{key} was not set in time")
            return self.values[key]
    def wait_at_barrier(self, *_): pass
"""
BYTES = """
class Store(Store):
    def key_value_set_bytes(self, key, value): self.key_value_set(key, bytes(value))
    blocking_key_value_get_bytes = Store.blocking_key_value_get
    def key_value_try_get(self, key):
        if key not in self.values: raise KeyError(f"NOT_FOUND: {key}")
        return self.values[key]
"""


def make(node, store="store", count=2):
    return (
        f'pjrt.make_client(library(), "fake", '
        f'{{"distributed_client": {store}, "node_id": {node}, "num_nodes": {count}}})'
    )


@pytest.mark.parametrize("extra", ["", BYTES], ids=["text", "bytes"])
def test_two_clients_find_each_other(child, extra):
    done = child(
        STORE
        + extra
        + f"""
store, made = Store(), []
def work(node):
    made.append({make("node")})
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
for t in threads: t.start()
for t in threads: t.join(50)
print(len(made), sorted(store.values))
value = store.values["node/0"]
print(value if isinstance(value, bytes) else value.encode("latin-1"))
for c in made: c.close()
print(counts())
""",
        FAKE_KV="exchange",
    )
    assert done.stdout.splitlines() == [
        "2 ['node/0', 'node/1']",
        r"b'n\xff\x00x'",
        "[0, 0, 0, 0, 0]",
    ]


def test_a_value_that_never_comes_is_the_clients_error(child):
    done = child(
        STORE
        + f"""
def attempt(): return {make(0, "Store()")}
error = raised(attempt)
print(type(error).__name__, error)
print(counts())
""",
        FAKE_KV="missing",
    )
    first, last = done.stdout.splitlines()
    assert first.startswith("DeadlineExceededError PJRT_Client_Create failed")
    assert "TimeoutError: nobody was not set in time" in first
    assert last == "[0, 0, 0, 0, 0]"


def test_what_the_store_raises_is_reported(child):
    done = child(
        f"""
class Broken:
    def key_value_set(self, key, value): raise ValueError("the disk is full")
    def blocking_key_value_get(self, key, timeout_in_ms): raise SystemExit(3)
def attempt(): return {make(0, "Broken()")}
print(raised(attempt))
""",
        FAKE_KV="exchange",
    )
    assert "ValueError: the disk is full" in done.stdout


def test_a_plugin_that_goes_on_asking_is_refused_at_the_end(child):
    done = child(
        STORE
        + f"""
import ctypes, time
def requests():
    found = (ctypes.c_int * 2)(); ctypes.CDLL(FAKE).fake_store_counts(found); return list(found)
c = {make(0, "Store()", 1)}
while requests()[0] < 5: time.sleep(0.01)
print(requests()[1])
c.close()
while not requests()[1]: time.sleep(0.01)
again = {make(0, "Store()", 1)}
print("end", flush=True)
""",
        FAKE_KV="forever",
    )
    assert done.stdout == "0\nend\n"


def test_what_is_no_store_is_refused(child):
    done = child(f"def attempt(): return {make(0, '3')}\nprint(repr(raised(attempt)))")
    assert "InvalidTypeError" in done.stdout
    assert "must have the method key_value_set, and is of type int" in done.stdout


JOB = """
import sys
import devrt
from devrt import distributed, xla_bridge
distributed.initialize(initialization_timeout=60)
job = distributed.global_state
xla_bridge.register_plugin("fake", library_path=sys.argv[1])
client = devrt.get_backend("fake")
found = dict(job.client.key_value_dir_get_bytes("node"))
print(sorted(found), set(found.values()))
job.client.wait_at_barrier("seen", 60_000)
distributed.shutdown()
"""


def test_a_registered_plugin_finds_the_other_processes_of_a_job(fake, tmp_path):
    pytest.importorskip("grpc", reason="needs the extra 'distributed'")
    script = tmp_path / "script.py"
    script.write_text(JOB)
    command = [sys.executable, "-m", "devrt", "launch", "-n", "2", str(script), fake]
    environ = {**os.environ, "FAKE_KV": "exchange"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    expected = r"['node/0', 'node/1'] {b'n\xff\x00x'}"
    assert sorted(done.stdout.splitlines()) == [f"[0] {expected}", f"[1] {expected}"]


def test_the_plugin_for_tpus_takes_no_nodes(libtpu):
    import devrt_pjrt
    from devrt.errors import InvalidArgumentError
    from devrt_tpu.traits import TPU

    library = devrt_pjrt.library_for("tpu", libtpu, traits=[TPU])
    with pytest.raises(InvalidArgumentError, match="TPU_WORKER_ID"):
        devrt_pjrt.make_client(library, "tpu", {"node_id": 0})
