"""What `devrt.numpy` makes of an array lies where the array does, and moves nothing else."""

import ml_dtypes
import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P
from devrt_acme.client import AcmeBuffer, AcmeClient, AcmeMemory

pytest.importorskip("devrt_cpu")

X = np.arange(16, dtype=np.float32).reshape(8, 2)
MAKERS = {
    "zeros_like": (jnp.zeros_like, np.zeros_like),
    "ones_like": (jnp.ones_like, np.ones_like),
    "full_like": (lambda x: jnp.full_like(x, 7), lambda x: np.full_like(x, 7)),
    "full_like of a row": (
        lambda x: jnp.full_like(x, np.array([1, 2])),
        lambda x: np.full_like(x, [1, 2]),
    ),
    "zeros_like dtype": (lambda x: jnp.zeros_like(x, np.int8), lambda x: np.zeros_like(x, np.int8)),
    "array": (jnp.array, np.array),
    "array dtype": (lambda x: jnp.array(x, np.int32), lambda x: np.array(x, np.int32)),
    "asarray dtype": (
        lambda x: jnp.asarray(x, dtype="bfloat16"),
        lambda x: x.astype(ml_dtypes.bfloat16),
    ),
    "asarray copy": (lambda x: jnp.asarray(x, copy=True), np.array),
}


@pytest.fixture(params=["cpu", "acme"])
def devices(request, cpu):
    return cpu[:4] if request.param == "cpu" else AcmeClient(4).devices()


def mesh_of(devices):
    return devrt.make_mesh((2, 2), ("x", "y"), devices=devices)


TARGETS = {
    "by default": lambda d: None,
    "a device": lambda d: d[1],
    "one device of a sharding": lambda d: SingleDeviceSharding(d[2]),
    "rows": lambda d: NamedSharding(mesh_of(d), P("x")),
    "rows and columns": lambda d: NamedSharding(mesh_of(d), P("x", "y")),
    "replicated": lambda d: NamedSharding(mesh_of(d), P()),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_it_lies_where_the_array_lies(devices, make, target):
    x = devrt.device_put(X, target(devices))
    ours, numpys = make
    made = ours(x)
    assert made is not x
    assert made.sharding == x.sharding
    assert made.committed is x.committed
    expected = numpys(X)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(made), expected)
    for mine, others in zip(made.addressable_shards, x.addressable_shards, strict=True):
        assert (mine.device, mine.index) == (others.device, others.index)
        np.testing.assert_array_equal(np.asarray(mine.data), expected[mine.index])


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_it_keeps_the_memory_kind(cpu, make):
    for target in (
        cpu[1].memory("pinned_host"),
        NamedSharding(mesh_of(cpu[:4]), P("x"), memory_kind="pinned_host"),
    ):
        made = make[0](devrt.device_put(X, target))
        assert {buffer.memory.kind for buffer in made._arrays} == {"pinned_host"}


@pytest.fixture
def far():
    """A sharded array that the host does not see, and a list of what is read of it."""
    client = AcmeClient(4)
    return devrt.device_put(X, NamedSharding(mesh_of(client.devices()), P("x")))


def readings_of(monkeypatch):
    shapes = []
    read = AcmeBuffer.__array__

    def counting(self, *arguments, **options):
        shapes.append(self.shape)
        return read(self, *arguments, **options)

    monkeypatch.setattr(AcmeBuffer, "__array__", counting)
    return shapes


def test_what_is_filled_reads_nothing(far, monkeypatch):
    shapes = readings_of(monkeypatch)
    for make in (jnp.zeros_like, jnp.ones_like, lambda x: jnp.full_like(x, 2, np.int8)):
        with devrt.transfer_guard_device_to_host("disallow_explicit"):
            make(far)
            make(jnp.asarray(far, device=far.sharding))
    assert jnp.zeros_like(far, device=far.devices().pop()).shape == far.shape
    assert shapes == []


def test_a_copy_goes_by_no_host(far, monkeypatch):
    shapes = readings_of(monkeypatch)
    with devrt.transfer_guard("disallow_explicit"):
        copied = jnp.array(far)
        assert jnp.asarray(far) is far
        assert jnp.array(far, copy=False) is far
        assert jnp.asarray(far, far.dtype, copy=None) is far
    far.delete()
    assert shapes == []
    np.testing.assert_array_equal(np.asarray(copied), X)


def test_another_dtype_reads_each_part_once(far, monkeypatch):
    shapes = readings_of(monkeypatch)
    made = jnp.asarray(far, np.int32)  # rows over x: each part lies on two devices
    assert shapes == [(4, 2)] * 2
    assert made.sharding == far.sharding


def test_guards_see_what_moves(far, cpu):
    near = devrt.device_put(X, cpu[0])
    with devrt.transfer_guard_device_to_host("disallow"):
        jnp.array(near, np.int32)  # the host sees it
        with pytest.raises(InvalidArgumentError, match="transfer guard"):
            jnp.array(far, np.int32)
    with devrt.transfer_guard_host_to_device("disallow"):
        for make in (jnp.zeros_like, lambda x: jnp.asarray(x, np.int32)):
            with pytest.raises(InvalidArgumentError, match="transfer guard"):
                make(far)


def test_a_target_that_is_given_holds(devices):
    x = devrt.device_put(X, NamedSharding(mesh_of(devices), P("x")))
    columns = NamedSharding(mesh_of(devices), P(None, "y"))
    for target in (devices[3], columns):
        for make in (
            lambda x, d: jnp.zeros_like(x, device=d),
            lambda x, d: jnp.array(x, device=d),
            lambda x, d: jnp.array(x, np.int32, device=d),
            lambda x, d: jnp.asarray(x, device=d),
        ):
            made = make(x, target)
            assert made.shape == x.shape
            assert made.committed
            assert made.sharding == (columns if target is columns else SingleDeviceSharding(target))
    same = jnp.array(x, np.int32, device=x.sharding)
    assert same.sharding == x.sharding


def test_a_copy_has_memory_of_its_own(cpu):
    x = devrt.device_put(X, cpu[0])
    for made in (jnp.array(x), jnp.array(x, device=cpu[0]), jnp.asarray(x, copy=True)):
        assert made.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert jnp.asarray(x, device=cpu[0]).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


def test_of_a_deleted_array_nothing_is_made(devices):
    x = devrt.device_put(X, devices[1])
    x.delete()
    for make in (
        jnp.zeros_like,
        jnp.array,
        jnp.asarray,
        lambda x: jnp.array(x, np.int32),
        lambda x: jnp.array(x, copy=False),
        lambda x: jnp.asarray(x, device=devices[0]),
    ):
        with pytest.raises(DeletedError, match="was deleted or donated"):
            make(x)


def test_wrong_arguments_are_typed_errors(devices):
    x = devrt.device_put(X, devices[0])
    with pytest.raises(InvalidArgumentError, match=r"shape \(3,\).*\(8, 2\)"):
        jnp.full_like(x, [1, 2, 3])
    for make in (jnp.array, jnp.asarray):
        with pytest.raises(InvalidTypeError, match="copy is True, False or None"):
            make(x, copy="no")


def test_host_values_are_taken_as_before():
    assert jnp.zeros_like([1.0, 2.0]).dtype == np.float32
    assert jnp.zeros_like(np.ones(3)).dtype == np.float64
    assert jnp.asarray([1, 2], copy=False).dtype == np.int32


@pytest.mark.parametrize(
    ("dtype", "value", "error", "why"),
    [
        (np.uint8, 300, InvalidArgumentError, "300"),
        (np.uint8, "abc", InvalidArgumentError, "abc"),
        (np.float32, "abc", InvalidArgumentError, "abc"),
        (np.float32, {}, InvalidTypeError, "dict"),
        (np.float32, 1j, InvalidArgumentError, "no imaginary part"),
        (np.int32, np.complex64(1j), InvalidArgumentError, "no imaginary part"),
        (np.float32, np.ma.masked, InvalidTypeError, "masked or null"),
        (np.float32, None, InvalidTypeError, "None"),
    ],
)
def test_a_value_that_the_dtype_does_not_hold_is_a_typed_error(devices, dtype, value, error, why):
    x = devrt.device_put(X.astype(dtype), devices[0])
    for make in (
        lambda: jnp.full_like(x, value),
        lambda: jnp.full_like(np.asarray(x), value),
        lambda: jnp.full_like(x, value, device=devices[1]),
        lambda: jnp.full((2,), value, dtype),
    ):
        with pytest.raises(error, match=why):
            make()


def test_a_complex_value_fills_complex_arrays(devices):
    x = devrt.device_put(X.astype(np.complex64), devices[0])
    assert np.asarray(jnp.full_like(x, 2j))[0, 0] == 2j


def test_each_part_that_is_read_is_copied_once(monkeypatch):
    devices = AcmeClient(4).devices()
    copied = []
    monkeypatch.setattr(AcmeBuffer, "copy_to_host_async", lambda self: copied.append(self))
    monkeypatch.setattr(AcmeMemory, "is_host_visible", False)
    mesh = devrt.make_mesh((2, 2), ("x", "y"), devices=devices)
    x = devrt.device_put(X, NamedSharding(mesh, P("x")))
    assert jnp.array(x, np.int32).dtype == np.int32
    assert len(copied) == 2
