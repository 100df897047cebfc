"""Buffers whose data is sent piece by piece, through a real plugin."""

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import devrt_pjrt
from devrt import dtypes
from devrt.errors import ClosedError, DevrtError, InvalidArgumentError, InvalidTypeError


@pytest.fixture
def make(xla_cpu):
    """Return a function that starts a transfer of one buffer."""
    return lambda shape, dtype="float32": xla_cpu.create_buffers_for_async_host_to_device(
        [(shape, dtype)]
    )


def test_a_buffer_fills_piece_by_piece(xla_cpu):
    array = np.arange(1000, dtype=np.float32)
    with xla_cpu.create_buffers_for_async_host_to_device([((1000,), "float32")]) as sent:
        buffer = sent.retrieve_buffer(0)
        assert not buffer.is_ready()
        assert sent.buffer_size(0) >= 4000
        sent.transfer_data(0, array[:500], 0, is_last=False).wait("transfer")
        sent.transfer_data(0, array[500:].tobytes(), 2000).wait("transfer")
        assert np.asarray(buffer).tolist() == array.tolist()


def test_a_failed_transfer_poisons_its_buffer(xla_cpu):
    with xla_cpu.create_buffers_for_async_host_to_device([((4,), "int32")]) as sent:
        buffer = sent.retrieve_buffer(0)
        sent.set_buffer_error(0, 13, "the disk burned")
        with pytest.raises(DevrtError, match="the disk burned"):
            buffer.block_until_ready()


def test_misuse_is_refused_before_the_plugin_sees_it(xla_cpu):
    sent = xla_cpu.create_buffers_for_async_host_to_device([((4,), "int32")])
    assert len(sent) == 1
    for use in (
        lambda: sent.retrieve_buffer(1),
        lambda: sent.transfer_data(0, b"x" * 17),
        lambda: sent.transfer_data(0, b"x", -1),
        lambda: sent.transfer_data(0, b"x", 16),
    ):
        with pytest.raises(InvalidArgumentError):
            use()
    buffer = sent.retrieve_buffer(0)
    with pytest.raises(InvalidArgumentError, match="retrieved already"):
        sent.retrieve_buffer(0)
    sent.transfer_data(0, bytes(16))
    with pytest.raises(InvalidArgumentError, match="already"):
        sent.transfer_data(0, bytes(16))
    buffer.block_until_ready()
    sent.close()
    sent.close()
    with pytest.raises(InvalidArgumentError, match="was closed"):
        sent.retrieve_buffer(0)


@pytest.mark.parametrize("shape", [(-1,), (2, -3), (1 << 40, 1 << 40), (0, 1 << 60, 1 << 60)])
def test_a_shape_that_would_end_the_process_is_refused(xla_cpu, make, shape):
    with pytest.raises(InvalidArgumentError, match="no array can have shape"):
        make(shape)
    with pytest.raises(InvalidArgumentError, match="no array can have shape"):
        xla_cpu.get_default_layout("float32", shape)


@pytest.mark.parametrize("specs", [None, 3, [3], [(3,)], [("ab", "float32")], [((2.5,), "int8")]])
def test_specs_that_are_none_are_refused(xla_cpu, specs):
    with pytest.raises(InvalidTypeError):
        xla_cpu.create_buffers_for_async_host_to_device(specs)


@pytest.mark.parametrize("code", [0, -1, 17, 1 << 40, "x", None, 3.5])
def test_an_error_without_a_code_is_refused(make, code):
    with make((4,)) as sent, pytest.raises(InvalidArgumentError):
        sent.set_buffer_error(0, code, "no error")


@pytest.mark.parametrize("message", [None, b"x", "half \udc80"])
def test_an_error_without_a_text_is_refused(make, message):
    with make((4,)) as sent, pytest.raises(InvalidTypeError):
        sent.set_buffer_error(0, 5, message)


def test_what_is_complete_cannot_fail_and_what_failed_gets_nothing(make):
    with make((4,)) as sent:
        sent.transfer_data(0, np.ones(4, np.float32)).wait("transfer")
        with pytest.raises(InvalidArgumentError, match="completed, or failed"):
            sent.set_buffer_error(0, 5, "late")
    with make((4,)) as sent:
        sent.set_buffer_error(0, 5, "first")
        with pytest.raises(InvalidArgumentError, match="completed, or failed"):
            sent.set_buffer_error(0, 5, "second")
        with pytest.raises(InvalidArgumentError, match="already"):
            sent.transfer_data(0, np.ones(4, np.float32))


def test_memory_that_nobody_wrote_does_not_count_as_data(make):
    with make((100,)) as sent:
        buffer = sent.retrieve_buffer(0)
        ones = np.ones(40, np.float32)
        sent.transfer_data(0, ones, 0, is_last=False)
        with pytest.raises(InvalidArgumentError, match="without bytes 160 to 240"):
            sent.transfer_data(0, ones, 240)
        with pytest.raises(InvalidArgumentError, match="without bytes 320 to 400"):
            sent.transfer_data(0, ones, 160)
        sent.transfer_data(0, ones, 240, is_last=False)
        sent.transfer_data(0, ones, 120)  # pieces may overlap
        assert np.asarray(buffer).tolist() == [1] * 100


@pytest.mark.parametrize(
    "data", [None, 3, "abcd", object(), [1.5], np.ones(4), np.ones(4, np.int32), [object()]]
)
def test_data_of_another_dtype_is_refused(make, data):
    with make((4,)) as sent, pytest.raises(InvalidTypeError, match="float32"):
        sent.transfer_data(0, data, is_last=False)


@pytest.mark.parametrize("where", ["x", None, 1.5])
def test_indices_and_offsets_are_ints(make, where):
    with make((4,)) as sent:
        for use in (
            lambda: sent.retrieve_buffer(where),
            lambda: sent.transfer_data(where, bytes(16)),
            lambda: sent.transfer_data(0, bytes(16), where),
        ):
            with pytest.raises(InvalidTypeError, match="must be an int"):
                use()


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
@pytest.mark.parametrize("count", [1, 7, 8, 1001])
def test_elements_below_a_byte_are_packed(make, name, count):
    dtype = dtypes.to_numpy(dtypes.by_name(name).code)
    array = (np.arange(count) % 2).astype(dtype)
    with make((count,), dtype) as sent:
        buffer = sent.retrieve_buffer(0)
        sent.transfer_data(0, array)
        assert (np.asarray(buffer).astype(np.float32) == array.astype(np.float32)).all()


def test_packed_bytes_are_taken_as_they_are(make):
    with make((3,), ml_dtypes.uint4) as sent:
        buffer = sent.retrieve_buffer(0)
        sent.transfer_data(0, bytes([0x21, 0x03]))
        assert np.asarray(buffer).astype(int).tolist() == [1, 2, 3]


def test_data_that_never_comes_fails_with_its_manager(make):
    with make((4,)) as sent:
        buffer = sent.retrieve_buffer(0)
    with pytest.raises(DevrtError):
        buffer.block_until_ready(30)


def test_closing_the_client_fails_what_never_came(xla_cpu_library, add_text):
    library = devrt_pjrt.library_for("xla_cpu_tests", xla_cpu_library)
    client = devrt_pjrt.make_client(library, "xla_cpu_tests", {"cpu_device_count": 1})
    sent = client.create_buffers_for_async_host_to_device([((8,), "float32")])
    late = sent.retrieve_buffer(0)
    result = client.compile_and_load(add_text).execute([late, late])
    client.close()
    for use in (late.block_until_ready, result[0].block_until_ready):
        with pytest.raises(ClosedError):
            use()
    with pytest.raises(ClosedError):
        sent.transfer_data(0, bytes(32))
    sent.close()


def test_eight_threads_send_at_once(make):
    def work(number):
        for _ in range(40):
            with make((1024,)) as sent:
                buffer = sent.retrieve_buffer(0)
                for at in range(8):
                    piece = np.full(128, number + at, np.float32)
                    sent.transfer_data(0, piece, at * 512, is_last=at == 7)
                wanted = np.repeat(np.arange(number, number + 8, dtype=np.float32), 128)
                np.testing.assert_array_equal(np.asarray(buffer), wanted)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
