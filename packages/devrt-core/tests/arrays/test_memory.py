"""Memory counters across devices, the peak of a block of code, and that nothing leaks."""

import gc
import tracemalloc

import numpy as np
import pytest

import devrt
from devrt.sharding import Mesh, NamedSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeClient
from support import together

pytest.importorskip("devrt_cpu")

KIB = 1 << 10


def test_stats_of_every_device_in_use(cpu):
    held = devrt.device_put(np.zeros(KIB, np.uint8), cpu[3])
    stats = devrt.memory_stats()
    assert set(cpu) <= set(stats)
    assert stats[cpu[3]]["bytes_in_use"] >= KIB
    assert set(devrt.memory_stats(cpu[:2])) == set(cpu[:2])
    assert held is not None


def test_a_block_reports_its_peak_and_what_stayed(cpu):
    before = devrt.device_put(np.zeros(KIB, np.uint8), cpu[0])
    with devrt.track_memory(cpu[:2]) as use:
        kept = devrt.device_put(np.ones(4 * KIB, np.uint8), cpu[0])
        devrt.device_put(np.zeros(64 * KIB, np.uint8), cpu[0]).delete()
        devrt.device_put(np.zeros(16 * KIB, np.uint8), cpu[1])
    gc.collect()
    assert use.is_exact
    assert use.peak_bytes[cpu[0]] - use.bytes_before[cpu[0]] == 68 * KIB
    assert use.peak_bytes[cpu[1]] - use.bytes_before[cpu[1]] == 16 * KIB
    assert use.bytes_after[cpu[0]] - use.bytes_before[cpu[0]] == 4 * KIB
    assert [x is kept for x in use.alive] == [True]
    assert "1 arrays of 4,096 bytes stayed alive" in str(use)
    assert "uint8[4096]" in str(use)
    kept.delete()
    assert use.alive == []
    assert before is not None


def test_an_earlier_and_greater_peak_does_not_hide_this_one(cpu):
    devrt.device_put(np.zeros(1 << 20, np.uint8), cpu[0]).delete()
    with devrt.track_memory(cpu[:1]) as use:
        devrt.device_put(np.zeros(KIB, np.uint8), cpu[0]).delete()
    assert use.peak_bytes[cpu[0]] - use.bytes_before[cpu[0]] == KIB


def test_what_was_deleted_during_its_copy_is_not_counted_after(cpu):
    host = np.zeros(16 << 20, np.uint8)
    for _ in range(5):
        with devrt.track_memory(cpu[:1]) as use:
            x = devrt.device_put(host, cpu[0])
            y = devrt.device_put(x, cpu[0], may_alias=False)
            x.delete()
        assert use.bytes_after[cpu[0]] - use.bytes_before[cpu[0]] == y.nbytes
        y.delete()


def test_blocks_nest(cpu):
    device = cpu[0]
    with devrt.track_memory([device]) as outer:
        devrt.device_put(np.zeros(32 * KIB, np.uint8), device).delete()
        with devrt.track_memory([device]) as inner:
            devrt.device_put(np.zeros(8 * KIB, np.uint8), device).delete()
    assert inner.peak_bytes[device] - inner.bytes_before[device] == 8 * KIB
    assert outer.peak_bytes[device] - outer.bytes_before[device] == 32 * KIB


def test_an_error_in_the_block_comes_out_and_the_figures_are_there(cpu):
    with pytest.raises(ZeroDivisionError), devrt.track_memory(cpu[:1]) as use:  # noqa: PT012
        devrt.device_put(np.zeros(KIB, np.uint8), cpu[0]).delete()
        1 / 0  # noqa: B018
    assert use.peak_bytes[cpu[0]] - use.bytes_before[cpu[0]] == KIB


def test_devices_that_count_no_peak_are_reported_apart():
    (device,) = AcmeClient(1).devices()
    with devrt.track_memory([device]) as use:
        kept = devrt.device_put(np.zeros(KIB, np.uint8), device)
    assert not use.is_exact
    assert use.peak_bytes[device] == KIB
    assert [x is kept for x in use.alive] == [True]


def test_a_report_keeps_nothing_alive(cpu):
    with devrt.track_memory(cpu[:1]) as use:
        kept = [devrt.device_put(np.zeros(KIB, np.uint8), cpu[0]) for _ in range(3)]
    assert len(use.alive) == 3
    del kept
    gc.collect()
    assert use.alive == []


def in_use(devices):
    stats = devrt.memory_stats(devices)
    return sum(s["bytes_in_use"] for s in stats.values())


def churn(cpu, count):
    """Put and drop small arrays in every way; return what is left of them."""
    rows = NamedSharding(Mesh(np.array(cpu, dtype=object), ("x",)), P("x"))
    whole = rows.with_spec(P())
    x, eight = np.ones(2, np.float32), np.arange(8.0)

    def once():
        a = devrt.device_put(x, cpu[0])
        np.asarray(a)
        devrt.device_put(a, cpu[1])
        b = devrt.device_put(eight, rows)
        np.asarray(b)
        devrt.device_put(b, whole)
        devrt.device_put(devrt.device_put({"a": x, "b": [1.0]}, cpu[2]), cpu[3])

    for _ in range(100):
        once()
    gc.collect()
    objects, bytes_before = len(gc.get_objects()), in_use(cpu)
    arrays = len(devrt.live_arrays())
    tracemalloc.start()
    try:
        traced, _ = tracemalloc.get_traced_memory()
        for _ in range(count):
            once()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - traced
    finally:
        tracemalloc.stop()
    return {
        "objects": len(gc.get_objects()) - objects,
        "arrays": len(devrt.live_arrays()) - arrays,
        "buffers": sum(len(d.live_buffers()) for d in cpu),
        "device bytes": in_use(cpu) - bytes_before,
        "python bytes": grown,
    }


@pytest.fixture
def quiet(cpu):
    """No arrays of other tests, which may go while this one counts."""
    gc.collect()
    for array in devrt.live_arrays("cpu"):
        array.delete()
    return cpu


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(150_000, marks=pytest.mark.stress, id="a million puts")]
)
def test_many_small_puts_leak_nothing(quiet, count):
    left = churn(quiet, count)
    assert left["arrays"] == left["buffers"] == left["device bytes"] == 0, left
    # A few objects come and go with the interpreter; a leak of one a step would be hundreds.
    assert left["objects"] < 50, left
    assert left["python bytes"] < 50_000, left


def test_puts_in_many_threads_leak_nothing(quiet):
    together(lambda _: [devrt.device_put(np.ones(64), quiet[0]) for _ in range(200)])
    assert sum(len(d.live_buffers()) for d in quiet) == 0
    assert in_use(quiet) == 0
