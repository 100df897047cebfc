"""Round trips with the libraries that share memory with devrt; ``nox -s interop`` installs them."""

import gc

import ml_dtypes
import numpy as np
import pytest

from devrt import dtypes, layout

COMMON = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128"


def values(name):
    return np.array([[0, 1, 1], [1, 0, 1]]).astype(dtypes.to_numpy(dtypes.by_name(name).code))


def same(left, right):
    left, right = np.asarray(left), np.asarray(right)
    same_type = (left.dtype, left.shape) == (right.dtype, right.shape)
    return same_type and left.tobytes() == right.tobytes()  # NaN is not equal to itself


def in_use(client):
    gc.collect()
    client.buffer_from_pyval(0).delete()  # releases what others queued
    return int(client.devices()[0].memory_stats()["bytes_in_use"])


class TestTorch:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("name", COMMON.split())
    def test_there_and_back(self, client, name):
        buffer = client.buffer_from_pyval(values(name))
        tensor = self.torch.from_dlpack(buffer)
        assert str(tensor.dtype) == f"torch.{name}"
        assert tensor.data_ptr() == buffer.unsafe_buffer_pointer()
        assert same(client.buffer_from_pyval(tensor), values(name))

    @pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
    def test_eight_bit_floats(self, client, name):
        tensor = self.torch.tensor([0.5, 1.0, -2.0]).to(getattr(self.torch, name))
        buffer = client.buffer_from_pyval(tensor)
        assert buffer.dtype == getattr(ml_dtypes, name)
        assert np.asarray(buffer).astype(np.float32).tolist() == [0.5, 1.0, -2.0]

    def test_strides_and_zero_copy(self, client):
        tensor = self.torch.arange(12.0).reshape(3, 4)
        assert same(client.buffer_from_pyval(tensor.T), tensor.numpy().T)
        assert same(client.buffer_from_pyval(tensor[::2, 1:]), tensor.numpy()[::2, 1:])
        aligned = self.torch.zeros(4096)
        buffer = client.buffer_from_pyval(aligned, None, False, 2)
        if aligned.data_ptr() % 64 == 0:
            assert buffer.unsafe_buffer_pointer() == aligned.data_ptr()
        columns = client.buffer_from_pyval(tensor.numpy(), layout=layout.Layout((0, 1)))
        assert self.torch.from_dlpack(columns).stride() == (1, 3)
        assert self.torch.equal(self.torch.from_dlpack(columns), tensor)

    def test_a_tensor_keeps_the_memory_and_gives_it_back(self, client):
        buffer = client.buffer_from_pyval(np.arange(1000.0))
        tensor = self.torch.from_dlpack(buffer)
        buffer.delete()
        assert float(tensor[999]) == 999
        assert in_use(client) == 8000
        del tensor
        assert in_use(client) == 0

    def test_a_tensor_that_asks_for_gradients(self, client):
        tensor = self.torch.ones(3, requires_grad=True)
        with pytest.raises((BufferError, RuntimeError)):
            client.buffer_from_pyval(tensor)
        assert same(client.buffer_from_pyval(tensor.detach()), np.ones(3, np.float32))


class TestJax:
    @pytest.fixture(autouse=True)
    def _jax(self):
        self.jax = pytest.importorskip("jax")
        with self.jax.enable_x64(True):
            yield

    @pytest.mark.parametrize(
        "name", [e.name for e in dtypes.ELEMENT_TYPES if not e.name.startswith("float6")]
    )
    def test_jax_arrays_are_sources(self, client, name):
        array = self.jax.device_put(values(name))
        assert same(client.buffer_from_pyval(array), values(name))

    @pytest.mark.parametrize("name", COMMON.split())
    def test_there_and_back(self, client, name):
        buffer = client.buffer_from_pyval(values(name))
        array = self.jax.dlpack.from_dlpack(buffer)
        assert same(array, values(name))
        assert same(client.buffer_from_pyval(array), values(name))

    def test_an_array_keeps_the_memory_and_gives_it_back(self, client):
        buffer = client.buffer_from_pyval(np.arange(1024.0))
        array = self.jax.dlpack.from_dlpack(buffer)
        buffer.delete()
        assert float(array[1023]) == 1023
        del array
        assert in_use(client) == 0


class TestArrow:
    @pytest.fixture(autouse=True)
    def _arrow(self):
        self.arrow = pytest.importorskip("pyarrow")

    @pytest.mark.parametrize("name", ["int8", "uint16", "int32", "int64", "float32", "float64"])
    def test_there_and_back(self, client, name):
        host = values(name).ravel()
        buffer = client.buffer_from_pyval(host)
        array = self.arrow.array(np.asarray(buffer))
        assert array.to_pylist() == host.tolist()
        assert same(client.buffer_from_pyval(array), host)

    def test_arrow_memory_is_shared(self, client):
        buffer = client.buffer_from_pyval(np.arange(1000.0))
        shared = self.arrow.py_buffer(buffer)
        assert shared.address == buffer.unsafe_buffer_pointer()
        assert shared.size == buffer.nbytes
        array = self.arrow.Array.from_buffers(self.arrow.float64(), 1000, [None, shared])
        again = client.buffer_from_pyval(array, None, False, 2)
        assert again.unsafe_buffer_pointer() == shared.address

    def test_tensors(self, client):
        host = np.arange(6, dtype=np.int32).reshape(2, 3)
        tensor = self.arrow.Tensor.from_numpy(np.asarray(client.buffer_from_pyval(host)))
        assert same(tensor.to_numpy(), host)
        assert same(client.buffer_from_pyval(tensor), host)
