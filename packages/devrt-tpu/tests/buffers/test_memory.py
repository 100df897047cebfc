"""What lives in memory: reported with the error of a full one, and in profiles."""

import gc
import pickle

import numpy as np
import pytest

from devrt.errors import OutOfMemoryError
from devrt.wire.pprof import Profile, Sample, read_profile, write_profile

HUGE = """
module @huge {
  func.func @main() -> tensor<1099511627776x64xf32> {
    %0 = stablehlo.constant dense<1.0> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1099511627776x64xf32>
    return %1 : tensor<1099511627776x64xf32>
  }
}
"""


def test_a_full_memory_is_reported_with_what_is_in_it(child):
    done = child(
        """
import os, pickle
c = pjrt.make_client(library(), "fake", {"size": 3})
def make_big(): return c.buffer_from_pyval(np.zeros((1 << 20,), np.float32))
kept = [make_big() for _ in range(2)] + [c.buffer_from_pyval(np.zeros(4, np.float32))] * 3
os.environ["FAKE_FAIL"], os.environ["FAKE_CODE"] = "Client_BufferFromHostBuffer", "8"
import ctypes; ctypes.CDLL(None).setenv(b"FAKE_FAIL", b"Client_BufferFromHostBuffer", 1)
ctypes.CDLL(None).setenv(b"FAKE_CODE", b"8", 1)
error = raised(make_big)
print(error)
print(error.summary, error.options, len(error.largest), isinstance(error, MemoryError))
print(str(pickle.loads(pickle.dumps(error))) == str(error))
"""
    )
    text = done.stdout
    assert "fake:0: bytes_in_use 42 B, bytes_limit 100 B" in text
    assert "options of the client: {'size': 3}" in text
    assert "live buffers: 3 with 8.0 MiB; the largest:" in text
    assert text.count("4.0 MiB: float32[1048576] on fake:0, memory=device, made at <string>:") == 2
    assert "(make_big)" in text
    assert text.splitlines()[-2:] == [
        "{'fake:0': {'bytes_in_use': 42, 'bytes_limit': 100}} {'size': 3} 3 True",
        "True",
    ]


def test_a_program_that_needs_too_much_says_what_lives(xla_cpu):
    kept = xla_cpu.buffer_from_pyval(np.zeros(1 << 21, np.uint8))
    with pytest.raises(OutOfMemoryError, match=r"uint8\[2097152\] on xla_cpu_tests:0") as caught:
        np.asarray(xla_cpu.compile_and_load(HUGE).execute([])[0])
    assert "'cpu_device_count': 8" in caught.value.message
    assert "test_a_program_that_needs_too_much" in caught.value.largest[0]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    del kept


def make(client, size):
    return client.buffer_from_pyval(np.zeros(size, np.uint8))


def test_a_profile_shows_where_buffers_were_made(xla_cpu):
    gc.collect()
    kept = [make(xla_cpu, 1 << 20), make(xla_cpu, 1 << 20), make(xla_cpu, 16)]
    assert kept[0].traceback.frames[0].function_name == "make"
    assert kept[2].traceback is None
    profile = read_profile(xla_cpu.heap_profile())
    assert profile.units == {"space": "bytes", "objects": "count"}
    (large,) = [s for s in profile.samples if s.stack and s.stack[0][0] == "make"]
    assert large.values == {"space": 2 << 20, "objects": 2}
    assert large.labels["array"] == "uint8[1048576]"
    assert large.labels["device"] == "xla_cpu_tests:0"
    assert large.stack[0][1] == __file__
    assert large.stack[1][0] == "test_a_profile_shows_where_buffers_were_made"
    kept.clear()
    gc.collect()
    after = read_profile(xla_cpu.heap_profile())
    assert not [s for s in after.samples if s.stack and s.stack[0][0] == "make"]


def test_a_profile_that_is_written_is_read_again():
    samples = (
        Sample({"space": 7, "objects": 1}, {"a": "b"}, (("f", "x.py", 3), ("g", "y.py", 1 << 20))),
        Sample({"space": 1 << 50, "objects": 2}, {}, ()),
        Sample({"space": 0, "objects": 0}, {"a": "c"}, (("f", "x.py", 9), ("f", "z.py", 9))),
    )
    profile = Profile(12345, {"space": "bytes", "objects": "count"}, samples)
    assert read_profile(write_profile(profile)) == profile
    assert write_profile(profile) == write_profile(profile)


def test_executables_are_listed_as_they_were_made(xla_cpu_library, add_text):
    import devrt_pjrt

    with devrt_pjrt.make_client(
        devrt_pjrt.library_for("listed", xla_cpu_library), "listed"
    ) as client:
        made = [client.compile_and_load(add_text) for _ in range(12)]
        assert client.live_executables() == made
        made[3].delete()
        del made[3], made[7]
        gc.collect()
        assert client.live_executables() == made
