"""Arrays on one device: what they are, and how they come back."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import devrt
from devrt import dtypes
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P
from support import aligned

pytest.importorskip("devrt_cpu")

ALL_DTYPES = [dtypes.to_numpy(element.code) for element in dtypes.ELEMENT_TYPES]


def test_put_and_get_keep_value_dtype_and_shape(cpu):
    x = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    a = devrt.device_put(x, cpu[0])
    assert (a.shape, a.ndim, a.size, a.nbytes, a.itemsize) == (x.shape, 3, 24, x.nbytes, 8)
    assert a.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(devrt.device_get(a), x)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype_comes_back_bit_for_bit(cpu, dtype):
    bits = np.arange(16, dtype=np.uint8)
    x = (bits % 2 if dtype.kind == "b" else bits).astype(np.float32).astype(dtype)
    back = devrt.device_get(devrt.device_put(x, cpu[-1]))
    assert back.dtype == dtype
    assert back.tobytes() == x.tobytes()


@given(
    x=hnp.arrays(
        st.sampled_from([np.float32, np.int16, np.complex128, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        elements=None,
    )
)
def test_any_array_comes_back_as_it_was(x):
    a = devrt.device_put(x, devrt.devices("cpu")[0])
    back = np.asarray(a)
    assert back.shape == x.shape
    assert back.dtype == x.dtype
    assert back.tobytes() == x.tobytes()


def test_changing_the_source_afterwards_changes_nothing(cpu):
    x = np.ones(1 << 16, np.float32)
    a = devrt.device_put(x, cpu[0])
    x[:] = 7
    assert np.asarray(a).max() == 1


def test_may_alias_shares_aligned_memory(cpu):
    x = aligned(1024)
    aliased = devrt.device_put(x, cpu[0], may_alias=True)
    copied = devrt.device_put(x, cpu[0])
    assert aliased.unsafe_buffer_pointer() == x.ctypes.data
    assert copied.unsafe_buffer_pointer() != x.ctypes.data


def test_views_are_read_only_and_outlive_the_array(cpu):
    a = devrt.device_put(np.arange(5), cpu[0])
    view = np.asarray(a)
    assert not view.flags.writeable
    assert np.shares_memory(view, np.asarray(a))
    a.delete()
    del a
    assert view.tolist() == [0, 1, 2, 3, 4]


def test_numpy_copy_argument(cpu):
    a = devrt.device_put(np.arange(4, dtype=np.int32), cpu[0])
    made = np.array(a, copy=True)
    assert made.flags.writeable
    assert not np.shares_memory(made, np.asarray(a))
    assert np.asarray(a, dtype=np.float64).dtype == np.float64


def test_dlpack_gives_the_same_memory(cpu):
    a = devrt.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), cpu[0])
    view = np.from_dlpack(a)
    assert view.ctypes.data == a.unsafe_buffer_pointer()
    np.testing.assert_array_equal(view, np.asarray(a))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(True, "bool"), (3, "int32"), (2**40, "int64"), (1.5, "float32"), (1j, "complex64")],
)
def test_python_scalars_become_32_bit_types(cpu, value, dtype):
    a = devrt.device_put(value, cpu[0])
    assert a.dtype == np.dtype(dtype)
    assert a.shape == ()
    assert a.item() == value


def test_parts_of_an_array_are_committed_as_it_is(cpu):
    for placed, is_committed in ((devrt.device_put(np.ones(3)), False),
                                 (devrt.device_put(np.ones(3), cpu[0]), True)):  # fmt: skip
        assert placed.committed is is_committed
        for part in (
            placed.addressable_shards[0].data,
            placed.global_shards[0].data,
            placed.addressable_data(0),
        ):
            assert part.committed is is_committed


def test_without_a_target_may_alias_decides_whether_it_is_copied(cpu):
    over = NamedSharding(devrt.make_mesh((2,), ("x",), devices=cpu[:2]), P("x"))
    pinned = over.with_memory_kind("pinned_host")
    for target in (None, cpu[1], over, pinned):
        a = devrt.device_put(np.arange(4.0), target)
        assert devrt.device_put(a) is a
        assert devrt.device_put(a, may_alias=True) is a
        for b in (devrt.device_put(a, may_alias=False), devrt.device_put([a], may_alias=False)[0]):
            assert b is not a
            assert (b.sharding, b.committed) == (a.sharding, a.committed)
            for mine, others in zip(b._arrays, a._arrays, strict=True):
                assert mine.unsafe_buffer_pointer() != others.unsafe_buffer_pointer()
            a_value = np.asarray(a)
            np.testing.assert_array_equal(np.asarray(b), a_value)
        moved = devrt.device_put(a, may_alias=False, donate=True)
        assert a.is_deleted()
        np.testing.assert_array_equal(np.asarray(moved), a_value)
        with pytest.raises(DeletedError, match="device_put"):
            devrt.device_put(a, may_alias=False)


def test_placement_is_committed_only_when_requested(cpu):
    assert devrt.device_put(1.0, cpu[0]).committed
    a = devrt.device_put(1.0)
    assert not a.committed
    assert a.device in devrt.local_devices()


def test_device_is_the_device_and_can_be_called(cpu):
    a = devrt.device_put(1.0, cpu[1])
    assert a.device is cpu[1]
    assert a.device() is cpu[1]
    assert a.devices() == {cpu[1]}
    assert a.sharding.device_set == {cpu[1]}
    assert a.is_fully_addressable
    assert a.is_fully_replicated


def test_default_device_is_a_context(cpu):
    with devrt.default_device(cpu[3]):
        inside = devrt.device_put(1.0)
        with devrt.default_device(None):
            innermost = devrt.device_put(1.0)
    after = devrt.device_put(1.0)
    assert (inside.device, innermost.device, after.device) == (cpu[3], cpu[0], cpu[0])


def test_deleted_arrays_say_so(cpu):
    a = devrt.device_put(np.ones(3), cpu[0])
    kept = a.clone()
    a.delete()
    a.delete()
    assert a.is_deleted()
    assert not kept.is_deleted()
    assert "deleted" in repr(a)
    for use in (np.asarray, devrt.device_get, lambda x: x.block_until_ready(), lambda x: x.copy()):
        with pytest.raises(DeletedError, match="deleted"):
            use(a)
    assert np.asarray(kept).tolist() == [1, 1, 1]


def test_copies_and_pickles(cpu):
    a = devrt.device_put(np.arange(4.0), cpu[1])
    for other in (copy.copy(a), copy.deepcopy(a), a.copy(), pickle.loads(pickle.dumps(a))):
        np.testing.assert_array_equal(np.asarray(other), np.asarray(a))
    assert a.copy().unsafe_buffer_pointer() != a.unsafe_buffer_pointer()
    assert a.copy().device is cpu[1]


def test_scalars_convert_and_format(cpu):
    a = devrt.device_put(np.float32(2.5), cpu[0])
    assert (float(a), int(a), bool(a), complex(a)) == (2.5, 2, True, 2.5 + 0j)
    assert f"{a:.2f}" == "2.50"
    assert [10, 20, 30][devrt.device_put(np.int32(2), cpu[0])] == 30
    with pytest.raises(TypeError):
        len(a)
    assert len(devrt.device_put(np.zeros((4, 2)), cpu[0])) == 4


def test_repr_shows_value_and_dtype(cpu):
    a = devrt.device_put(np.array([1, 2], np.int16), cpu[0])
    assert repr(a) == "Array([1, 2], dtype=int16)"
    assert str(a) == "[1 2]"
    assert repr(devrt.device_put(np.ones(2, ml_dtypes.bfloat16), cpu[0])).endswith(
        "dtype=bfloat16)"
    )


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)])
def test_repr_of_an_empty_array_shows_its_shape(cpu, shape):
    a = devrt.device_put(np.zeros(shape, np.float32), cpu[0])
    assert repr(a) == f"Array([], shape={shape}, dtype=float32)"


def test_arrays_are_unhashable_like_jax(cpu):
    with pytest.raises(TypeError, match="unhashable"):
        hash(devrt.device_put(1.0, cpu[0]))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(object(), id="object"),
        pytest.param("text", id="text"),
        pytest.param(object, id="class"),
        pytest.param(np.array(["a"]), id="strings"),
        pytest.param(np.array([object()]), id="objects"),
        pytest.param(np.array(["2026-01-01"], "datetime64[D]"), id="dates"),
        pytest.param(np.zeros(2, [("a", "i4")]), id="structure"),
        pytest.param(np.zeros(1, np.longdouble), id="longdouble"),
        pytest.param({1, 2}, id="set"),
    ],
)
def test_what_is_no_array_is_one_clear_error(cpu, value):
    with pytest.raises(InvalidTypeError) as caught:
        devrt.device_put(value, cpu[0])
    assert isinstance(caught.value, TypeError)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize("target", [3, b"cpu", "no_such_memory", ["cpu"]])
def test_a_bad_target_is_one_clear_error(cpu, target):
    with pytest.raises(InvalidArgumentError):
        devrt.device_put(np.ones(2), target)


def test_trees(cpu):
    tree = {"w": [np.ones(2), (np.zeros(3), None)], "b": 1.0}
    placed = devrt.device_put(tree, cpu[0])
    assert isinstance(placed["w"][1][0], devrt.Array)
    assert placed["w"][1][1] is None
    back = devrt.device_get(devrt.block_until_ready(placed))
    assert back["b"] == 1.0
    np.testing.assert_array_equal(back["w"][0], np.ones(2))
    assert devrt.block_until_ready({"not": "an array"}) == {"not": "an array"}


def test_a_bad_leaf_is_named_by_its_path(cpu):
    with pytest.raises(InvalidTypeError, match=r"\['w'\]\[1\]") as caught:
        devrt.device_put({"w": [1.0, object()]}, cpu[0])
    assert "['w'][1]" in caught.value.path


def test_live_arrays(cpu):
    mine = devrt.device_put(np.ones(3), cpu[0])
    assert any(x is mine for x in devrt.live_arrays())
    assert any(x is mine for x in devrt.live_arrays("cpu"))
    mine.delete()
    assert not any(x is mine for x in devrt.live_arrays())
    devrt.clear_caches()


def test_device_get_leaves_what_is_no_array_as_it_is(cpu):
    thing = object()
    plain = {"number": 1, "half": 0.5, "flag": True, "name": "w", "raw": b"x", "thing": thing}
    got = devrt.device_get({**plain, "a": devrt.device_put(1.5, cpu[0]), "b": np.float32(2)})
    for name, value in plain.items():
        assert got[name] is value
        assert devrt.device_get(value) is value
    assert devrt.device_get(np.ndarray) is np.ndarray
    for name, value in (("a", 1.5), ("b", 2)):
        assert type(got[name]) is np.ndarray
        assert got[name] == value
    assert devrt.device_get([1, "w"], progress=lambda _: None) == [1, "w"]


def test_a_misspelt_memory_kind_is_named(cpu):
    with pytest.raises(InvalidArgumentError, match="Did you mean 'pinned_host'"):
        devrt.device_put(1, "pined_host")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cpu:1", r"pass devrt\.devices\('cpu'\)\[1\]\.$"),
        ("v5e", r"A device is one of devrt\.devices\(\)\.$"),
        ("acme_that_is_known", r"needs its backend: pip install \./packages/acme"),
    ],
)
def test_a_device_s_name_is_no_memory_kind(cpu, monkeypatch, target, words):
    known = {"acme_that_is_known": ("acme",)}
    monkeypatch.setattr("devrt.plugins.discovery.known.wheels_for", lambda n: known.get(n, ()))
    monkeypatch.setattr(
        "devrt.plugins.discovery.known.advice_for", lambda w: f"pip install ./packages/{w}"
    )
    with pytest.raises(InvalidArgumentError, match=words):
        devrt.device_put(1, target)


def test_values_that_are_no_numbers_are_named(cpu):
    with pytest.raises(InvalidTypeError, match=r"type str is no array\. .* x\.encode\(\)"):
        devrt.device_put("abc", cpu[0])

    class Key:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("keys are no numbers. Use key_data(x).")

    Key.__module__ = "others"
    with pytest.raises(InvalidTypeError, match=r"Use key_data\(x\)\.$"):
        devrt.device_put(Key(), cpu[0])
