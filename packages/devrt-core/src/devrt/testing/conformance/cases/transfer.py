"""Values of the host, on a device and back: every dtype, shape, order and kind of source."""

from __future__ import annotations

import array
import datetime
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidTypeError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error
from devrt.testing.conformance.material import is_held, put, values
from devrt.testing.conformance.subject import Subject

ROUND_TRIP = "Client.buffer_from_pyval: a buffer of the argument's shape and dtype."
ANY_STRIDES = "Client.buffer_from_pyval: keeps its dtype; may be strided in any way."
SHAPES = ((), (1,), (7,), (3, 5), (2, 1, 3), (0,), (2, 0, 3))
MULTIBYTE = ("int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128")


def _goes_and_comes(subject: Subject, host: Any, expected: Any, what: str) -> None:
    buffer = put(subject, host)
    expect_equal(np.asarray(buffer), expected, what)
    spec = (buffer.shape, buffer.ndim, buffer.size, buffer.nbytes)
    wanted = (expected.shape, expected.ndim, expected.size, expected.nbytes)
    expect_equal(spec, wanted, f"shape, ndim, size, nbytes of {what}")
    expect_equal(buffer.dtype, expected.dtype, f"the buffer's dtype of {what}")


@case(
    "transfer",
    "every dtype goes to a device and comes back bit by bit, or is refused with a typed error",
    contract=ROUND_TRIP,
)
def every_dtype_comes_back(subject: Subject) -> None:
    for element in dtypes.ELEMENT_TYPES:
        if is_held(subject, element.name):
            for shape in SHAPES:
                host = values(element.name, shape)
                _goes_and_comes(subject, host, host, f"{element.name}{list(shape)}")


@case("transfer", "arrays of rank 0 to 64 come back in their shape", contract=ROUND_TRIP)
def every_rank_comes_back(subject: Subject) -> None:
    for rank in range(65):  # NumPy's own limit is 64
        shape = tuple(2 if i % 13 == 5 else 1 for i in range(rank))
        for name in ("float32", "uint8"):
            host = values(name, shape)
            _goes_and_comes(subject, host, host, f"{name} of rank {rank}")


@case("transfer", "empty arrays of every dtype keep their shape", contract=ROUND_TRIP)
def empty_arrays_keep_their_shape(subject: Subject) -> None:
    for element in dtypes.ELEMENT_TYPES:
        if is_held(subject, element.name):
            dtype = dtypes.to_numpy(element.code)
            for shape in ((0,), (0, 0, 0), (5, 0), (0, 1 << 40), (1 << 40, 0)):
                host = np.zeros(shape, dtype)
                _goes_and_comes(subject, host, host, f"{element.name}{list(shape)}")


@case(
    "transfer",
    "parts of arrays, backwards and with steps too, come back as NumPy sees them",
    contract=ANY_STRIDES,
)
def strided_sources_come_back(subject: Subject) -> None:
    parts = (
        np.s_[::-1],
        np.s_[:, ::-2],
        np.s_[1::2, ::3],
        np.s_[..., 0],
        np.s_[:, None, 2:4],
        np.s_[3:3],
        np.s_[::-1, ::-1, ::-1],
    )
    for name in ("uint8", "int8", "bfloat16", "float32", "int64", "complex128", "int4"):
        if is_held(subject, name):
            whole = values(name, (6, 7, 4))
            for part in parts:
                host = whole[part]
                _goes_and_comes(subject, host, host, f"{name} with strides {host.strides}")


@case(
    "transfer",
    "transposed, broadcast and column-major sources come back in their order",
    contract=ANY_STRIDES,
)
def transposed_sources_come_back(subject: Subject) -> None:
    for rows in (5, 130, 15_000):
        base = np.arange(rows * 70 * 3, dtype=np.int32).reshape(rows, 70, 3)
        for what, host in (
            ("transposed", base.T),
            ("with two axes swapped", base.transpose(1, 0, 2)),
            ("column-major", np.asfortranarray(base)),
            ("broadcast", np.broadcast_to(base[0], (5, 70, 3))),
            ("broadcast along the last axis", np.broadcast_to(base[:, :1, :1], (rows, 3, 4))),
        ):
            _goes_and_comes(subject, host, np.array(host, order="C"), f"{what}, {rows} rows")


@case(
    "transfer",
    "random views of random arrays come back",
    contract=ANY_STRIDES,
)
def random_views_come_back(subject: Subject) -> None:
    random = np.random.default_rng(23)
    names = [e.name for e in dtypes.ELEMENT_TYPES if is_held(subject, e.name)]
    for number in range(150):
        name = names[int(random.integers(len(names)))]
        shape = tuple(int(n) for n in random.integers(0, 6, int(random.integers(0, 6))))
        host = values(name, shape).transpose(random.permutation(len(shape)))
        steps = [int(random.choice([1, 2, -1, -2])) for _ in host.shape]
        view = host[tuple(slice(None, None, step) for step in steps)]
        what = f"view {number}: {name}{list(view.shape)} with strides {view.strides}"
        _goes_and_comes(subject, view, view, what)


@case(
    "transfer",
    "big-endian values arrive as the same numbers",
    contract="Client.buffer_from_pyval: a buffer of the argument's shape and dtype; "
    "dtypes.from_numpy: byte order is ignored: a big-endian float32 is float32.",
)
def big_endian_is_converted(subject: Subject) -> None:
    for name in MULTIBYTE:
        if not is_held(subject, name):
            continue
        for rows in (1, 4, 1 << 15):
            native = values(name, (rows, 6))[::2]
            swapped = native.astype(native.dtype.newbyteorder(">"))
            _goes_and_comes(subject, swapped, native, f"big-endian {name}, {rows} rows")


@case(
    "transfer",
    "sources at unaligned addresses come back",
    contract=ANY_STRIDES,
)
def unaligned_sources_come_back(subject: Subject) -> None:
    for name in ("float32", "float64", "int16", "complex64"):
        if not is_held(subject, name):
            continue
        expected = values(name, (501,))
        for offset in (1, 3, 7):
            raw = np.zeros(expected.nbytes + 8, np.uint8)
            raw[offset : offset + expected.nbytes] = expected.view(np.uint8)
            host = raw[offset : offset + expected.nbytes].view(expected.dtype)
            for semantics in range(4):
                buffer = subject.client.buffer_from_pyval(host, None, False, semantics)
                expect_equal(np.asarray(buffer), expected, f"{name} at {offset} past an address")


@case(
    "transfer",
    "a large array comes back from every device",
    contract=ROUND_TRIP,
)
def large_arrays_come_back(subject: Subject) -> None:
    host = np.random.default_rng(5).integers(0, 1 << 30, (1 << 10, 1 << 11), np.int32)
    for device in subject.devices[:4]:
        for source in (host, host.T[::2]):
            came = np.asarray(put(subject, source, device))
            expect_equal(came, np.ascontiguousarray(source), f"{source.nbytes >> 20} MiB")


@case(
    "transfer",
    "numbers of Python and NumPy become arrays without dimensions",
    contract="Client.buffer_from_pyval: argument: a NumPy array, a NumPy or Python scalar, or "
    "an object with the buffer protocol or __array__.",
)
def scalars_become_arrays(subject: Subject) -> None:
    for value in (True, False, np.float32(1.5), np.int8(-3), np.bool_(True), np.uint16(7)):
        _goes_and_comes(subject, value, np.asarray(value), repr(value))
    for number in (-7, 2.5, 1 + 2j):
        if not is_held(subject, np.asarray(number).dtype.name):
            continue  # it may be refused as the array of NumPy that it is
        came = np.asarray(put(subject, number))
        expect_equal((came.shape, dtypes.kind_of(came.dtype)), ((), _kind(number)), f"{number}")
        expect(complex(came[()]) == complex(number), expected=repr(number), came=repr(came))


def _kind(number: complex) -> str:
    return {int: "i", float: "f", complex: "c"}[type(number)]


@case(
    "transfer",
    "objects with the buffer protocol or __array__ are read",
    contract="Client.buffer_from_pyval: argument: a NumPy array, a NumPy or Python scalar, or "
    "an object with the buffer protocol or __array__.",
)
def objects_of_other_kinds_are_read(subject: Subject) -> None:
    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(6, dtype=np.int16).reshape(2, 3)

    wanted = np.arange(5, dtype=np.int32)
    for what, source in (
        ("a bytearray", bytearray(wanted.tobytes())),
        ("bytes", wanted.tobytes()),
    ):
        _goes_and_comes(subject, source, wanted.view(np.uint8), what)
    _goes_and_comes(subject, array.array("i", range(5)), wanted, "an array.array")
    _goes_and_comes(subject, memoryview(wanted.data), wanted, "a memoryview")
    _goes_and_comes(subject, Wrapped(), Wrapped().__array__(), "an object with __array__")
    again = put(subject, wanted)
    _goes_and_comes(subject, again, wanted, "a buffer of the client itself")


@case(
    "transfer",
    "what no device can hold is refused with a typed error",
    contract="Client.buffer_from_pyval: raises InvalidTypeError if the argument is no array or "
    "has a dtype that a device cannot hold.",
)
def what_no_device_holds_is_refused(subject: Subject) -> None:
    live = len(subject.client.live_buffers())
    for value in (
        object(),
        "text",
        [{}],
        np.array(["a"]),
        np.zeros(2, "M8[s]"),
        np.zeros(2, "O"),
        np.zeros(2, [("a", "i4")]),
        datetime.date(2000, 1, 1),
        lambda: 0,
    ):
        with expect_error(InvalidTypeError):
            put(subject, value)
    expect_equal(len(subject.client.live_buffers()), live, "live buffers after the errors")


@case(
    "transfer",
    "what the source raises while it is read goes to the caller as it is",
    contract="Client.buffer_from_pyval: what the argument raises while it is read goes to the "
    "caller as it is.",
)
def errors_of_the_source_pass(subject: Subject) -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise ZeroDivisionError("broken by the case")

    for _ in range(3):
        with expect_error(ZeroDivisionError, "broken by the case"):
            put(subject, Broken())


@case(
    "transfer",
    "the default layout is what a buffer has when none is requested",
    contract="Client.get_default_layout: the layout that a buffer gets when none is requested.",
)
def default_layout_is_what_buffers_have(subject: Subject) -> None:
    for shape in ((), (3,), (2, 3), (4, 0, 2), (2, 3, 4, 5)):
        dtype = np.dtype("float32")
        layout = subject.client.get_default_layout(dtype, shape, subject.device)
        buffer = put(subject, np.zeros(shape, dtype), subject.device)
        expect_equal(str(buffer.pjrt_layout), str(layout), f"the layout of {shape}")
        dimensions = sorted(buffer.layout.minor_to_major())
        expect_equal(dimensions, list(range(len(shape))), "dimensions of the layout, each once")
