"""`devrt.dlpack`: arrays of other libraries, taken over."""

import ml_dtypes
import numpy as np
import pytest

import devrt
from devrt import dlpack, dtypes
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import Mesh, NamedSharding
from devrt.sharding import PartitionSpec as P
from support import aligned

pytest.importorskip("devrt_cpu")


def address(x):
    return x.unsafe_buffer_pointer()


class Old:
    """An exporter from before DLPack 1.0."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [lambda x: x, Old], ids=["versioned", "unversioned"])
@pytest.mark.parametrize("copy", [None, False])
def test_memory_is_shared_where_it_can_be(cpu, wrap, copy):
    x = aligned(16)
    a = dlpack.from_dlpack(wrap(x), copy=copy)
    assert address(a) == x.ctypes.data
    assert a.device is cpu[0]
    assert not a.committed
    np.testing.assert_array_equal(np.asarray(a), x)


@pytest.mark.parametrize("wrap", [lambda x: x, Old], ids=["versioned", "unversioned"])
@pytest.mark.parametrize(
    "x",
    [aligned(16, offset=16), aligned(32)[::2], aligned(16)[::-1]],
    ids=["apart", "strided", "back"],
)
def test_a_copy_is_made_where_it_must_be_and_refused_where_it_may_not(cpu, wrap, x):
    np.testing.assert_array_equal(np.asarray(dlpack.from_dlpack(wrap(x))), x)
    live = len(cpu[0].live_buffers())
    with pytest.raises(InvalidArgumentError, match="Leave copy out"):
        dlpack.from_dlpack(wrap(x), copy=False)
    assert len(cpu[0].live_buffers()) == live


def test_a_copy_that_is_requested_is_one(cpu):
    x = aligned(16)
    a = dlpack.from_dlpack(x, copy=True)
    b = dlpack.from_dlpack(a, copy=True)
    c = dlpack.from_dlpack(a, cpu[1], copy=True)
    x[...] = 0
    for each in (a, b, c):
        np.testing.assert_array_equal(np.asarray(each), np.arange(16))
    assert len({address(a), address(b), address(c), x.ctypes.data}) == 4


def test_a_device_commits(cpu):
    a = dlpack.from_dlpack(aligned(8), cpu[3])
    assert a.device is cpu[3]
    assert a.committed
    mesh = Mesh(np.array(cpu[:4], dtype=object), ("x",))
    b = dlpack.from_dlpack(aligned(8), NamedSharding(mesh, P("x")))
    assert len(b.addressable_shards) == 4
    np.testing.assert_array_equal(np.asarray(b), np.arange(8))


def test_devrts_own_arrays_share_their_memory(cpu):
    a = devrt.device_put(np.arange(4.0), cpu[2])
    for source in (a, a._arrays[0]):
        b = dlpack.from_dlpack(source)
        assert b.device is cpu[2]
        assert address(b) == address(a)
        b.delete()
    assert not a.is_deleted()
    assert address(dlpack.from_dlpack(a, cpu[1], copy=False)) == address(a)  # one address space
    with pytest.raises(InvalidArgumentError, match="Leave copy out"):
        dlpack.from_dlpack(a, cpu[1].memory("pinned_host"), copy=False)
    sharded = devrt.device_put(
        np.arange(4.0), NamedSharding(Mesh(np.array(cpu[:4], dtype=object), ("x",)), P("x"))
    )
    with pytest.raises(InvalidArgumentError, match="one device"):
        dlpack.from_dlpack(sharded)


@pytest.mark.parametrize("value", [3, [1.0], None, "text"])
def test_what_has_no_dlpack_is_a_typed_error(value):
    with pytest.raises(InvalidTypeError, match="__dlpack__"):
        dlpack.from_dlpack(value)


def test_an_array_on_a_device_that_the_target_cannot_read(cpu):
    class Elsewhere(Old):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(InvalidArgumentError, match="lies on a device"):
        dlpack.from_dlpack(Elsewhere(aligned(4)))


def test_nothing_is_as_good_as_shared(cpu):
    a = dlpack.from_dlpack(np.zeros((0, 3)), copy=False)
    assert a.shape == (0, 3)


@pytest.mark.parametrize("element", dtypes.ELEMENT_TYPES, ids=lambda e: e.name)
def test_what_is_supported_goes_there_and_back(cpu, element):
    dtype = dtypes.to_numpy(element.code)
    assert dlpack.is_supported_dtype(dtype)
    assert dlpack.is_supported_dtype(element.name)
    (buffer,) = devrt.device_put(np.ones(3, dtype), cpu[0])._arrays

    class Foreign:
        def __dlpack__(self, **options):
            return buffer.__dlpack__(**options)

        def __dlpack_device__(self):
            return buffer.__dlpack_device__()

    back = dlpack.from_dlpack(Foreign(), copy=False)
    assert back.dtype == dtype
    assert np.asarray(back).tobytes() == np.ones(3, dtype).tobytes()


@pytest.mark.parametrize("dtype", [object, "U3", "datetime64[s]", "no such", [("a", "f4")]])
def test_other_dtypes_are_not_supported(dtype):
    assert not dlpack.is_supported_dtype(dtype)
    assert dlpack.is_supported_dtype(ml_dtypes.bfloat16)


def test_the_module_is_loaded_when_it_is_requested(run_python):
    code = (
        "import sys, devrt; devrt.devices(); assert 'devrt.dlpack' not in sys.modules; devrt.dlpack"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


class Exporter(Old):
    """An exporter that answers, or fails, as it is reported, and counts how often it exports."""

    def __init__(self, array, device=(1, 0), answer=None):
        super().__init__(array)
        self.device, self.answer, self.exports = device, answer, 0

    def __dlpack__(self, **options):
        self.exports += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.array.__dlpack__(**options) if self.answer is None else self.answer

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device


@pytest.mark.parametrize("with_device", [False, True])
@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("answer", [None, 7, ("x", 0), (1,), (1.0, 0), (1, 0, 0)], ids=repr)
def test_an_exporter_that_cannot_say_where_it_is(cpu, answer, copy, with_device):
    source = Exporter(aligned(4), answer)
    with pytest.raises(InvalidTypeError, match="type Exporter lies: its __dlpack_device__"):
        dlpack.from_dlpack(source, cpu[0] if with_device else None, copy)
    assert not source.exports


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize("error", [BufferError, RuntimeError, ValueError, OSError])
def test_an_exporter_that_fails(cpu, error, copy):
    sources = [
        Exporter(aligned(4), answer=error("not today")),
        Exporter(aligned(4), device=error("not today")),
    ]
    for source in sources:
        with pytest.raises(InvalidArgumentError, match=f"{error.__name__}: not today.*numpy") as r:
            dlpack.from_dlpack(source, copy=copy)
        assert type(r.value.__cause__) is error


@pytest.mark.parametrize("copy", [None, False])
def test_an_exporter_of_no_capsule(cpu, copy):
    with pytest.raises(InvalidTypeError, match="no unused DLPack capsule"):
        dlpack.from_dlpack(Exporter(aligned(4), answer=5), copy=copy)


@pytest.mark.parametrize("copy", [None, True, False])
def test_an_array_is_exported_once(cpu, copy):
    source = Exporter(aligned(16))
    a = dlpack.from_dlpack(source, copy=copy)
    assert source.exports == 1
    assert (address(a) == source.array.ctypes.data) is (copy is not True)
    apart = Exporter(aligned(16, offset=16))
    with pytest.raises(InvalidArgumentError, match="array of type Exporter on cpu:0 as it is"):
        dlpack.from_dlpack(apart, copy=False)
    assert apart.exports == 1
    with pytest.raises(InvalidArgumentError, match=r"Exporter lies on a device \(DLPack type 3\)"):
        dlpack.from_dlpack(Exporter(aligned(16), device=(3, 0)), copy=copy)


def test_dtypes_that_numpy_does_not_export_are_shared(cpu):
    x = aligned(16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    assert address(dlpack.from_dlpack(x, copy=False)) == x.ctypes.data


@pytest.mark.parametrize("copy", ["no", 0, 1, 2.0, ()])
def test_copy_is_a_truth_value_and_nothing_else(cpu, copy):
    for source in (aligned(4), devrt.device_put(1.0, cpu[0])):
        with pytest.raises(InvalidTypeError, match="copy is True, False or None"):
            dlpack.from_dlpack(source, copy=copy)


def test_no_dtype_is_not_supported():
    assert not dlpack.is_supported_dtype(None)


def test_a_deleted_array_and_a_guard_name_from_dlpack(cpu):
    a = devrt.device_put(1.0, cpu[0])
    with devrt.transfer_guard("disallow_explicit"):
        for source, target in ((aligned(4), cpu[1]), (a, cpu[0].memory("pinned_host"))):
            with pytest.raises(InvalidArgumentError, match="transfer by from_dlpack"):
                dlpack.from_dlpack(source, target)
    a.delete()
    for target in (None, cpu[1], "pinned_host"):
        for copy in (None, True, False):
            with pytest.raises(DeletedError, match="from_dlpack failed: this array of shape"):
                dlpack.from_dlpack(a, target, copy)


HUGE = 10**30


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"max_version": (0,)}, InvalidTypeError, "max_version=(0,) is not a tuple of two ints"),
        ({"max_version": (HUGE, 0)}, InvalidTypeError, f"max_version=({HUGE}, 0) is not a tuple"),
        ({"max_version": 10**5000}, InvalidTypeError, "max_version=an int of 16610 bits is not"),
        ({"dl_device": (1,)}, InvalidTypeError, "dl_device=(1,) is not a tuple of two ints"),
        ({"dl_device": (2, 0)}, BufferError, "DLPack device (1, 0)"),
        ({"stream": HUGE}, InvalidArgumentError, f"stream={HUGE} is no stream's handle"),
        ({"stream": 10**5000}, InvalidArgumentError, "stream=an int of 16610 bits is no stream's"),
        ({"stream": 1}, BufferError, "has no streams: stream must be None"),
        ({"copy": 2}, InvalidTypeError, "copy must be True or False"),
        ({"versions": 1}, InvalidTypeError, "it takes stream, max_version, dl_device, copy, and"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_a_refused_option_of_an_export_is_named_with_the_array(cpu, options, kind, says):
    a = devrt.device_put(np.ones((2, 3), np.float32), cpu[0])
    with pytest.raises(kind) as caught:
        a.__dlpack__(**options)
    text = str(caught.value)
    assert text.startswith("__dlpack__ of the array float32[2, 3] on cpu:0 failed: ")
    assert says in text
