"""What the functions that make arrays of parts refuse, and how they say it."""

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import Mesh, NamedSharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")

X = np.arange(8, dtype=np.float32)


@pytest.fixture
def quarters(cpu):
    return NamedSharding(Mesh(np.array(cpu[:4], dtype=object), ("x",)), P("x"))


@pytest.mark.parametrize("shape", [8, "ab", b"ab", (8.0,), (None,), None, len], ids=repr)
def test_what_is_no_shape(quarters, shape):
    with pytest.raises(InvalidTypeError, match=r"from_callback takes a global shape, a tuple"):
        devrt.make_array_from_callback(shape, quarters, X.__getitem__)


def test_a_shape_is_any_sequence_of_integers(quarters):
    for shape in ([8], (np.int64(8),), np.array([8])):
        made = devrt.make_array_from_callback(shape, quarters, X.__getitem__)
        assert made.shape == (8,)
        assert type(made.shape[0]) is int


def test_a_negative_shape_is_named(quarters):
    parts = [shard.data for shard in devrt.device_put(X, quarters).addressable_shards]
    makes = [
        lambda shape: devrt.make_array_from_callback(shape, quarters, X.__getitem__),
        lambda shape: devrt.make_array_from_process_local_data(quarters, X, shape),
        lambda shape: devrt.make_array_from_single_device_arrays(shape, quarters, parts),
        quarters.placement,
    ]
    for make in makes:
        with pytest.raises(InvalidArgumentError, match=r"\(-8,\), whose dimension 0 is negative"):
            make((-8,))


@pytest.mark.parametrize("shape", [8, "8", (8.0,), ("8",)], ids=repr)
def test_a_global_shape_of_local_data_may_have_gaps_and_nothing_else(quarters, shape):
    assert devrt.make_array_from_process_local_data(quarters, X, (None,)).shape == (8,)
    with pytest.raises(InvalidTypeError, match="local_data takes a global shape"):
        devrt.make_array_from_process_local_data(quarters, X, shape)


def test_what_is_no_sharding(cpu):
    with pytest.raises(InvalidTypeError, match=r"takes a sharding.*SingleDeviceSharding\(device\)"):
        devrt.make_array_from_callback((8,), cpu[0], X.__getitem__)
    with pytest.raises(InvalidTypeError, match=r"takes a sharding.*SingleDeviceSharding\(device\)"):
        devrt.make_array_from_process_local_data(cpu[0], X)


def test_what_is_no_callback(quarters):
    with pytest.raises(InvalidTypeError, match=r"takes a function of an index.* not 5 of type"):
        devrt.make_array_from_callback((8,), quarters, 5)


class Unreadable:
    """What NumPy cannot read."""

    def __array__(self, *arguments, **named):
        return 5


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (None, "data_callback returned None for the part"),
        ([[1], [1, 2]], "inhomogeneous"),
        ("text", "callback's part.*cannot be held by a device"),
        (Unreadable(), "callback's part.*type Unreadable cannot be read as an array"),
    ],
    ids=["none", "ragged", "text", "unreadable"],
)
def test_what_a_callback_may_not_return(quarters, part, why):
    with pytest.raises(InvalidTypeError, match=why) as raised:
        devrt.make_array_from_callback((8,), quarters, lambda index: part)
    assert raised.value.index == (slice(0, 2),)


def test_what_a_callback_raises_is_the_callers_own(quarters):
    with pytest.raises(ZeroDivisionError):
        devrt.make_array_from_callback((8,), quarters, lambda index: 1 / 0)


def test_what_is_no_dtype(quarters):
    with pytest.raises(InvalidTypeError, match="'nope' cannot be held"):
        devrt.make_array_from_callback((8,), quarters, X.__getitem__, dtype="nope")
