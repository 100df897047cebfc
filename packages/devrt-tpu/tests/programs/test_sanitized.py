"""The native half and the plugin for tests under AddressSanitizer, in a child process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import python

HERE = Path(__file__).resolve().parents[1]
KINDS = "address,undefined"


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory, compiler, include):
    """Return the native module and the plugin, built with the sanitizers, and their runtime."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("no cmake")
    folder = tmp_path_factory.mktemp("sanitized")
    output = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    runtime = output.stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("the C compiler has no AddressSanitizer")
    options = [f"-DDEVRT_SANITIZE={KINDS}", f"-DPython_EXECUTABLE={sys.executable}"]
    source = str(HERE.parent)
    subprocess.run([cmake, "-S", source, "-B", str(folder), *options], check=True, stdout=-3)
    subprocess.run([cmake, "--build", str(folder), "--parallel"], check=True, stdout=-3)
    plugin = folder / "fake.so"
    flags = ["-shared", "-fPIC", "-pthread", "-g", f"-fsanitize={KINDS}", f"-I{include}"]
    subprocess.run(
        [compiler, *flags, str(HERE / "fake" / "plugin.c"), "-o", str(plugin)], check=True
    )
    return folder / "_native.abi3.so", plugin, runtime


HEAD = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("devrt_pjrt._native", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules[spec.name] = module
import gc, random, threading
import numpy as np
from devrt import errors
import devrt_pjrt as pjrt
assert sys.modules["devrt_pjrt._native"] is module
library = pjrt.library_for("fake", sys.argv[2])
def client(**options): return pjrt.make_client(library, "fake", options)
"""

WORK = """
def work(seed, c):
    dice = random.Random(seed)
    kept = []
    for step in range(300):
        array = np.zeros(dice.choice([1, 4, 1000]), np.float32)
        made = c.buffer_from_pyval(array, None, False, dice.randrange(4))
        kept.append(made)
        if dice.random() < 0.5: kept.append(made.clone())
        if dice.random() < 0.5: kept.append(np.asarray(made))
        if dice.random() < 0.3: made.delete()
        other = np.zeros(3, np.float32)
        if dice.random() < 0.3: kept.append(c.buffer_from_dlpack(other, copy=True))
        try: kept.append(made.__dlpack__())
        except (BufferError, errors.DevrtError): pass
        dice.shuffle(kept)
        del kept[: dice.randrange(3)]
c = client()
threads = [threading.Thread(target=work, args=(i, c)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
if os.environ.get("CLOSE") == "yes": c.close()
print("done")
"""

KV = """
class Store:
    values = {}
    def key_value_set(self, key, value): self.values[key] = value
    def blocking_key_value_get(self, key, timeout_in_ms):
        if key not in self.values: raise TimeoutError(key)
        return self.values[key]
for _ in range(20):
    client(distributed_client=Store(), node_id=0, num_nodes=1).close()
print("done")
"""

FAIL = """
for _ in range(20):
    try: client()
    except errors.DevrtError: pass
print("done")
"""

FAIL_LATER = """
c = client()
for step in range(20):
    b = c.buffer_from_pyval(np.zeros(2, np.float32))
    try: np.asarray(b)
    except errors.DevrtError: pass
    if step % 3 == 0: b.delete()
c.close()
print("done")
"""


@pytest.mark.parametrize(
    ("code", "switches"),
    [
        (WORK, {}),
        (WORK, {"CLOSE": "yes"}),
        (WORK, {"FAKE_SLOW": "1"}),
        (WORK, {"FAKE_OFF_HOST": "1", "CLOSE": "yes"}),
        (KV, {"FAKE_KV": "exchange"}),
        (FAIL, {"FAKE_FAIL": "Client_Create"}),
        (FAIL_LATER, {"FAKE_FAIL": "Event"}),
        (FAIL_LATER, {"FAKE_FAIL": "Event", "FAKE_SLOW": "2"}),
        (FAIL_LATER, {"FAKE_FAIL": "Buffer_ReadyEvent"}),
    ],
)
def test_no_memory_is_misused(sanitized, code, switches):
    module, plugin, runtime = sanitized
    env = switches | {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=1",
        "UBSAN_OPTIONS": "halt_on_error=1",
    }
    done = python(HEAD + code, module, plugin, options=(), **env)
    assert done.stdout == "done\n"
    assert "Sanitizer" not in done.stderr
    assert "runtime error" not in done.stderr
