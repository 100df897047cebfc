"""Bytes of buffers as they lie on a device: read in part, or taken for another type."""

import dataclasses

import numpy as np
import pytest

from devrt.errors import (
    DeletedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnimplementedError,
)

X = np.arange(8, dtype=np.float32)


@pytest.fixture
def buffer(xla_cpu):
    return xla_cpu.buffer_from_pyval(X)


def test_a_part_is_read(buffer):
    part = np.zeros(3, np.float32)
    assert buffer.copy_raw_to_host(part, offset=8) is None
    assert part.tolist() == [2, 3, 4]


def test_no_more_is_written_than_requested(buffer):
    whole = bytearray(b"\xff" * 32)
    buffer.copy_raw_to_host(whole, size=4)
    assert whole == X[:1].tobytes() + b"\xff" * 28
    buffer.copy_raw_to_host(whole, offset=32, size=0)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"target": bytearray(33)}, InvalidArgumentError),
        ({"target": bytearray(8), "offset": 28}, InvalidArgumentError),
        ({"target": bytearray(8), "offset": -1}, InvalidArgumentError),
        ({"target": bytearray(8), "size": 9}, InvalidArgumentError),
        ({"target": bytearray(8), "size": -1}, InvalidArgumentError),
        ({"target": bytearray(8), "offset": "a"}, InvalidTypeError),
        ({"target": b"12345678"}, InvalidArgumentError),
        ({"target": 5}, InvalidTypeError),
        ({"target": np.zeros((4, 4), np.float32)[:, ::2]}, InvalidTypeError),
    ],
)
def test_what_cannot_be_read_is_refused(buffer, arguments, kind):
    with pytest.raises(kind, match="copy_raw_to_host failed"):
        buffer.copy_raw_to_host(**arguments)


def test_a_deleted_buffer_is_not_read(buffer):
    buffer.delete()
    with pytest.raises(DeletedError):
        buffer.copy_raw_to_host(bytearray(4))


def test_an_uninitialised_buffer_has_its_place_and_can_be_given_back(xla_cpu):
    device = xla_cpu.devices()[3]
    made = xla_cpu.create_uninitialized_buffer((2, 3), np.float32, device)
    assert (made.shape, made.dtype, made.device) == ((2, 3), np.float32, device)
    assert np.asarray(made).shape == (2, 3)
    made.delete()
    assert made.is_deleted()


@pytest.mark.parametrize("shape", [(-1,), (1 << 62, 4)])
def test_an_uninitialised_buffer_of_no_shape_is_refused(xla_cpu, shape):
    with pytest.raises(InvalidArgumentError, match="no array can have shape"):
        xla_cpu.create_uninitialized_buffer(shape, np.float32)


def test_a_plugin_that_is_too_old_says_so(buffer):
    with pytest.raises(UnimplementedError, match=r"no PJRT_Buffer_Bitcast: it is of version 0\.81"):
        buffer.bitcast(np.int32)
    assert np.asarray(buffer).tolist() == X.tolist()


def test_bytes_are_taken_for_another_type(child):
    done = child("""
        c = client(); b = c.buffer_from_pyval(np.arange(4, dtype=np.float32))
        made = b.bitcast(np.int16, (2, 4))
        print(np.array_equal(made, np.arange(4, dtype=np.float32).view(np.int16).reshape(2, 4)))
        print(made, b.is_deleted(), len(c.live_buffers()))
        print(type(raised(np.asarray, b)).__name__)
        same = made.bitcast(np.float32, (4,)); print(same.bitcast(np.int32).shape)
        del b, made, same; c.close(); print(counts())
    """)
    assert done.stdout.splitlines() == [
        "True",
        "PjrtBuffer(int16[2,4] on fake:0, memory=device) True 1",
        "DeletedError",
        "(4,)",
        "[0, 0, 0, 0, 0]",
    ], done.stderr


@pytest.mark.parametrize("share", ["b.clone()", "np.asarray(b)"])
def test_what_shares_the_memory_keeps_it(child, share):
    done = child(
        f"""
        c = client(); x = np.arange(1 << 15, dtype=np.float32)
        b = c.buffer_from_pyval(x); other = {share}
        made = b.bitcast(np.int32)
        print(b.is_deleted(), np.array_equal(other, x), np.array_equal(made, x.view(np.int32)))
        del b, made, other; c.close(); print(counts())
        """
    )
    assert done.stdout == "True True True\n[0, 0, 0, 0, 0]\n", done.stderr


def test_a_buffer_that_is_deleted_while_it_is_read_keeps_its_memory(buffer, monkeypatch):
    kind, part = type(buffer.connection.api), np.zeros(8, np.float32)
    call = kind.call

    def deleting(api, function, **fields):
        made = call(api, function, **fields)
        if function == "PJRT_Buffer_CopyRawToHost":  # as another thread may
            buffer.delete()
        return made

    monkeypatch.setattr(kind, "call", deleting)
    buffer.copy_raw_to_host(part)
    assert part.tolist() == X.tolist()
    assert buffer.is_deleted()


def test_a_buffer_that_is_deleted_while_it_is_taken_for_another_type_is_taken(child):
    done = child("""
        from types import SimpleNamespace
        from devrt_pjrt.buffers import raw
        c = client(); b = c.buffer_from_pyval(np.arange(4, dtype=np.float32)); lib = raw.lib
        def deleting(handle):  # as another thread may
            found = lib.devrt_is_shared(handle); b.delete(); return found
        raw.lib = SimpleNamespace(devrt_is_shared=deleting, devrt_adopt_copy=lib.devrt_adopt_copy)
        made = b.bitcast(np.int32); print(made.shape)
        del b, made; c.close(); print(counts())
    """)
    assert done.stdout == "(4,)\n[0, 0, 0, 0, 0]\n", done.stderr


def test_other_sizes_and_failures_leave_the_buffer(child):
    done = child(
        """
        c = client(); b = c.buffer_from_pyval(np.arange(4, dtype=np.float32))
        print(raised(b.bitcast, np.int16)); print(raised(b.bitcast, np.int32))
        print(np.asarray(b).tolist())
        """,
        FAKE_FAIL="Buffer_Bitcast",
    )
    first, second, last = done.stdout.splitlines()
    assert first.startswith("bitcast failed: PjrtBuffer(float32[4]"), done.stderr
    assert "fake failure of Buffer_Bitcast" in second
    assert last == "[0.0, 1.0, 2.0, 3.0]"


TRANSFERS = "import ctypes; begun = ctypes.CDLL(FAKE).fake_transfers\n"


def test_a_transfer_that_was_begun_is_not_begun_again(child):
    done = child(
        TRANSFERS
        + """
c = client(); b = c.buffer_from_pyval(np.arange(4, dtype=np.float32))
b.copy_to_host_async(); b.copy_to_host_async(); print(begun())
print(np.asarray(b).tolist(), np.asarray(b)[3], begun())
b.delete(); print(type(raised(np.asarray, b)).__name__)
del b; c.close(); print(counts())
""",
        FAKE_OFF_HOST=1,
    )
    assert done.stdout.splitlines() == [
        "1",
        "[0.0, 1.0, 2.0, 3.0] 3.0 1",
        "DeletedError",
        "[0, 0, 0, 0, 0]",
    ], done.stderr


def test_memory_that_the_host_sees_needs_no_transfer(child):
    done = child(
        TRANSFERS + "c = client(); b = c.buffer_from_pyval(np.arange(4.0))\n"
        "b.copy_to_host_async(); print(np.asarray(b)[1], begun())"
    )
    assert done.stdout == "1.0 0\n", done.stderr


@pytest.mark.parametrize("member", ["connection", "given_layout", "spec", "handle"])
def test_what_a_buffer_is_of_cannot_be_changed(buffer, member):
    with pytest.raises(AttributeError, match="has no setter"):
        setattr(buffer, member, None)


def page_locked(buffer):
    """Return a tensor in host memory that another runtime has page-locked, as DLPack's type 3."""
    from devrt_pjrt._native import ffi, lib
    from devrt_pjrt.library import capsule

    address = ffi.cast("void *", buffer.unsafe_buffer_pointer())
    held = lib.devrt_hold(buffer.handle)
    made = lib.devrt_dlpack_make(held, address, 3, 0, buffer.shape, 1, 2, 32, False, 0)
    destroy = int(ffi.cast("uintptr_t", lib.devrt_dlpack_destructor(False)))
    return capsule.make(int(ffi.cast("uintptr_t", made)), b"dltensor", destroy)


def test_memory_that_the_host_reads_too_is_copied_from_dlpack(xla_cpu, buffer, monkeypatch):
    with pytest.raises(InvalidArgumentError, match=r"lies on DLPack device \(3, 0\)"):
        xla_cpu.buffer_from_dlpack(page_locked(buffer))
    traits = dataclasses.replace(xla_cpu.connection.traits, dlpack_host_types=(3,))
    monkeypatch.setattr(xla_cpu.connection, "traits", traits)
    assert np.asarray(xla_cpu.buffer_from_dlpack(page_locked(buffer))).tolist() == X.tolist()
    with pytest.raises(InvalidArgumentError, match="cannot be viewed"):
        xla_cpu.buffer_from_dlpack(page_locked(buffer), copy=False)
