"""Where a program made its buffers."""

import gc
import sys
import weakref

import numpy as np
import pytest

import devrt
from devrt import errors
from devrt.contract import Frame, Traceback
from devrt_cpu import make_cpu_client

SMALL = np.zeros(8, np.float32)
LARGE = np.zeros(1 << 18, np.uint8)


def make(client, host=SMALL):
    return client.buffer_from_pyval(host)


def make_through_another(client):
    return make(client)


@pytest.fixture
def noting_client():
    with make_cpu_client(traceback_in_buffers="all") as client:
        yield client


def test_traceback_is_the_stack(noting_client):
    traceback = make_through_another(noting_client).traceback
    assert isinstance(traceback, Traceback)
    code = make.__code__
    assert traceback.frames[0] == Frame(
        __file__, "make", code.co_firstlineno, code.co_firstlineno + 1
    )
    here = sys._getframe()
    assert [f.function_name for f in traceback.frames[:3]] == [
        "make",
        "make_through_another",
        here.f_code.co_name,
    ]
    assert 3 < len(traceback.frames) <= 12
    assert str(traceback).splitlines()[0] == f"{__file__}:{code.co_firstlineno + 1} (make)"


def test_each_way_to_make_a_buffer_is_noted(noting_client):
    device = noting_client.devices()[0]
    source = make(noting_client)
    made = {
        "clone": source.clone(),
        "copy": source.copy_to_memory(device.memory("unpinned_host")),
        "batch": noting_client.batched_buffer_from_pyval(SMALL, [device], [(0,)], (4,))[0],
    }
    lines = {buffer.traceback.frames[0].line_num for buffer in made.values()}
    assert len(lines) == 3
    (listed,) = [b for b in noting_client.live_buffers() if b == source]
    assert listed.traceback == source.traceback


def test_arrays_are_noted_with_the_users_frame():
    large = devrt.device_put(np.zeros(1 << 18, np.uint8))
    frames = large._buffers[0].traceback.frames
    assert any(frame.file_name == __file__ for frame in frames)


def test_sampling_notes_all_large_ones_and_some_small_ones():
    with make_cpu_client() as client:
        small = [make(client) for _ in range(3200)]
        noted = sum(buffer.traceback is not None for buffer in small)
        assert 80 <= noted <= 120
        assert all(make(client, LARGE).traceback is not None for _ in range(20))


def test_off_notes_nothing():
    with make_cpu_client(traceback_in_buffers="off") as client:
        assert make(client, LARGE).traceback is None


@pytest.mark.parametrize("mode", ["", "ALL", "1"])
def test_other_modes_are_refused(mode):
    with pytest.raises(errors.InvalidArgumentError, match="traceback_in_buffers"):
        make_cpu_client(traceback_in_buffers=mode)


def test_the_traceback_outlives_the_buffer_and_the_code(noting_client):
    space = {}
    exec(compile("def f(c, x):\n    return c.buffer_from_pyval(x)", "<made up>", "exec"), space)
    buffer = space["f"](noting_client, SMALL)
    space.clear()
    gc.collect()
    frame = buffer.traceback.frames[0]
    del buffer
    assert frame == Frame("<made up>", "f", 1, 2)


def test_call_sites_without_buffers_do_not_pile_up(noting_client):
    """What is kept of code is bounded by the buffers that are alive."""
    gone = []
    for i in range(3000):
        source = f"def f(c, x):\n    return c.buffer_from_pyval(x) # {i}"
        space = {}
        exec(compile(source, f"<{i}>", "exec"), space)
        space["f"](noting_client, SMALL).delete()
        gone.append(weakref.ref(space["f"].__code__))
    del space
    gc.collect()
    assert sum(code() is not None for code in gone) <= 1100


def test_names_that_are_no_text_do_no_harm(noting_client):
    space = {}
    source = "def f(c, x):\n    return c.buffer_from_pyval(x)"
    exec(compile(source, "\udcff\u2603.py", "exec"), space)
    buffer = space["f"](noting_client, SMALL)
    assert buffer.traceback.frames[0].file_name == "\\udcff\u2603.py"
