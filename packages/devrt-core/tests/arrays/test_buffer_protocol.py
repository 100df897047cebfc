"""Arrays through the buffer protocol: memoryview, bytes, hashes, files, on every Python."""

import contextlib
import gc
import hashlib
import io
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import devrt
from devrt import contract
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeBuffer, AcmeClient
from support import together

pytest.importorskip("devrt_cpu")

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def places(cpu):
    mesh = devrt.make_mesh((2,), ("x",), devices=cpu[:2])
    return {
        "one device": cpu[0],
        "rows": NamedSharding(mesh, P("x")),
        "columns": NamedSharding(mesh, P(None, "x")),
        "replicated": NamedSharding(mesh, P()),
        "another backend": AcmeClient(1).devices()[0],
    }


@pytest.mark.parametrize("name", ["one device", "rows", "columns", "replicated", "another backend"])
def test_what_takes_bytes_takes_arrays(places, tmp_path, name):
    a = devrt.device_put(X, places[name])
    view = memoryview(a)
    assert (view.shape, view.format, view.readonly) == ((4, 6), "f", True)
    assert view.tolist() == X.tolist()
    assert bytes(a) == X.tobytes()
    assert hashlib.sha256(a).digest() == hashlib.sha256(X).digest()
    assert b"".join([a, b"!"]) == X.tobytes() + b"!"
    with (tmp_path / "x").open("wb") as file:
        assert file.write(a) == X.nbytes
    assert (tmp_path / "x").read_bytes() == X.tobytes()
    assert io.BytesIO(a).getvalue() == X.tobytes()
    np.testing.assert_array_equal(np.frombuffer(a, np.float32), X.ravel())
    assert not np.asarray(a).flags.writeable


@pytest.mark.parametrize("value", [np.array(2.5), np.zeros((0, 3)), np.zeros(0, np.int8), X.T])
def test_scalars_empty_and_column_major_arrays(cpu, value):
    a = devrt.device_put(value, cpu[0])
    assert memoryview(a).shape == value.shape
    assert memoryview(a).tolist() == value.tolist()
    assert bytes(a) == value.tobytes()
    assert hashlib.sha256(a).digest() == hashlib.sha256(value.tobytes()).digest()
    assert b"".join([a]) == value.tobytes()
    file = io.BytesIO()
    file.write(a)
    assert file.getvalue() == value.tobytes()


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_types_without_a_format_show_their_bytes_only(cpu, dtype):
    x = np.arange(6).astype(dtype).reshape(2, 3)
    a = devrt.device_put(x, cpu[0])
    with pytest.raises(BufferError, match=rf"no format for {x.dtype}.*ml_dtypes"):
        memoryview(a)
    assert bytes(a) == x.tobytes()
    file = io.BytesIO()
    assert file.write(a) == x.nbytes
    assert file.getvalue() == x.tobytes()
    assert hashlib.sha256(a).digest() == hashlib.sha256(x.tobytes()).digest()
    assert np.asarray(a).dtype == dtype


def test_nothing_is_written_through_it(cpu):
    a = devrt.device_put(X, cpu[0])
    with pytest.raises(TypeError, match="read-only"):
        memoryview(a)[0, 0] = 1
    with pytest.raises((BufferError, TypeError), match=r"immutable|read-write"):
        io.BytesIO(bytes(200)).readinto(a)
    assert np.array_equal(np.asarray(a), X)


def test_arrays_whose_data_is_gone_say_so(cpu):
    a = devrt.device_put(X, cpu[0])
    a.delete()
    for take in (memoryview, bytes, hashlib.sha256):
        with pytest.raises(DeletedError, match="deleted or donated"):
            take(a)
    client = AcmeClient(1)
    b = devrt.device_put(X, client.devices()[0])
    client.close()
    with pytest.raises(ClosedError):
        memoryview(b)


def test_a_guard_refuses_by_its_own_error():
    a = devrt.device_put(X, AcmeClient(1).devices()[0])
    with devrt.transfer_guard("disallow"):
        for take in (memoryview, bytes, hashlib.sha256):
            with pytest.raises(InvalidArgumentError, match="transfer guard"):
                take(a)


def test_a_view_outlives_array_and_deletion(cpu):
    a = devrt.device_put(X, cpu[0])
    b = devrt.device_put(X, cpu[0])
    first, second = memoryview(a), memoryview(b)
    part = first[1:]
    a.delete()
    del a, b
    first.release()
    gc.collect()
    assert part.tolist() == X[1:].tolist()
    assert second.tobytes() == X.tobytes()


def test_views_leak_nothing(cpu):
    a = devrt.device_put(X, cpu[0])
    gone = devrt.device_put(X, cpu[0])
    gone.delete()

    def use(count):
        for _ in range(count):
            memoryview(a).release()
            hashlib.sha256(a)
            with contextlib.suppress(DeletedError):
                memoryview(gone)

    use(100)
    gc.collect()
    references = sys.getrefcount(a), sys.getrefcount(np.asarray(a)), sys.getrefcount(gone)
    tracemalloc.start()
    try:
        use(100)
        before = tracemalloc.get_traced_memory()[0]
        use(20_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    now = sys.getrefcount(a), sys.getrefcount(np.asarray(a)), sys.getrefcount(gone)
    assert now == references
    assert grown < 20_000  # less than a byte a time


def test_threads_share_an_array(cpu):
    a = devrt.device_put(X, NamedSharding(devrt.make_mesh((2,), ("x",), devices=cpu[:2]), P("x")))
    found = []

    together(lambda _: found.extend(bytes(a) == X.tobytes() for _ in range(200)))
    assert found == [True] * 800


def test_every_class_of_the_kind_is_shown(cpu):
    class Mine(contract.BufferExporter):
        def __init__(self, shown):
            self.shown = shown

        def _exported(self, flags):
            return self.shown

    assert bytes(Mine(b"abc")) == b"abc"
    with pytest.raises(TypeError):
        memoryview(Mine(1.5))
    with pytest.raises(BufferError, match="why not"):
        memoryview(Mine("why not"))
    with pytest.raises(NotImplementedError):
        memoryview(contract.BufferExporter())
    assert isinstance(devrt.device_put(1.0, cpu[0]), contract.BufferExporter)


BELOW = """
from devrt import contract
class Mine(contract.BufferExporter):
    def _exported(self, flags):
        return b"abc"
class Below(Mine): pass
class Own(Below): pass
import devrt_cpu._ext
print(bytes(memoryview(Below())), bytes(memoryview(Own())))
"""


def test_classes_made_before_a_backend_is_imported_are_shown(run_python):
    done = run_python("-c", BELOW)
    assert done.stdout.strip() == "b'abc' b'abc'", done.stderr


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_format_that_is_refused_is_not_waited_for(devices_that_count, dtype):
    devices, read = devices_that_count
    a = devrt.device_put(np.ones(3, dtype), devices[0])
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(a), np.ones(3, dtype))
    assert len(read) == 1


@pytest.fixture
def devices_that_count(monkeypatch):
    read = []
    plain = AcmeBuffer.__array__
    monkeypatch.setattr(AcmeBuffer, "__array__", lambda self: read.append(1) or plain(self))
    return AcmeClient(1).devices(), read


FIRST = """
import devrt, numpy as np
{imports}
a = devrt.device_put(np.arange(3.0))
assert bytes(a) == np.arange(3.0).tobytes()
print(memoryview(a).tolist())
"""


@pytest.mark.parametrize(
    "imports", ["import devrt.arrays", "devrt.devices()", "import devrt_cpu._ext, devrt.arrays"]
)
def test_whatever_is_imported_first(run_python, imports):
    done = run_python("-c", FIRST.format(imports=imports), DEVRT_PLATFORMS="cpu")
    assert done.stdout.strip() == "[0.0, 1.0, 2.0]", done.stderr
