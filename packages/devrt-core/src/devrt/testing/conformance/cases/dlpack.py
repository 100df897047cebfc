"""DLPack: what buffers export, in both forms of the protocol, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import DeletedError, UnimplementedError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import (
    expect,
    expect_equal,
    expect_error,
    not_applicable,
    require,
)
from devrt.testing.conformance.material import (
    DELETED,
    bytes_in_use,
    is_held,
    put,
    statistics,
    values,
)
from devrt.testing.conformance.subject import Subject

EXPORT = "Buffer.__dlpack__: return the data as a DLPack capsule"
X = np.arange(12, dtype=np.float32).reshape(3, 4)
HOST_TYPES = (1, 3, 11)  # DLPack's numbers of memory that the host reads: its own, page-locked
NO_DEVICE = (63, 0)


def _exports(subject: Subject) -> None:
    require(subject.client.capabilities.dlpack, "it exports nothing through DLPack")


def _read_by_numpy(subject: Subject) -> None:
    """Not applicable unless NumPy reads what is exported."""
    _exports(subject)
    kind, _ = put(subject, X).__dlpack_device__()
    if kind != 1:
        not_applicable(f"NumPy reads no memory of DLPack's type {kind}")


@case(
    "transfer",
    "a backend without DLPack says so with a typed error",
    contract="Buffer.__dlpack__: raises UnimplementedError if the backend exports none.",
)
def absence_of_dlpack_is_reported(subject: Subject) -> None:
    require(not subject.client.capabilities.dlpack, "it exports through DLPack")
    buffer = put(subject, X)
    for call in (buffer.__dlpack__, buffer.__dlpack_device__):
        with expect_error(UnimplementedError):
            call()


@case(
    "transfer",
    "a buffer says on which of DLPack's devices it lies",
    contract="Buffer.__dlpack_device__: DLPack's number of the kind of device, and the device's "
    "own.",
)
def dlpack_device_is_two_integers(subject: Subject) -> None:
    _exports(subject)
    for device in subject.devices:
        found = put(subject, X, device).__dlpack_device__()
        is_pair = len(found) == 2 and all(isinstance(each, int) for each in found)
        expect(is_pair, expected="a pair of integers", came=found)
        if device.default_memory().is_host_visible:
            expect(found[0] in HOST_TYPES, expected=f"one of {HOST_TYPES}", came=found)


@case(
    "transfer",
    "a capsule has the form that its consumer requested",
    contract=EXPORT,
)
def dlpack_capsules_have_their_form(subject: Subject) -> None:
    _exports(subject)
    buffer = put(subject, X)
    for options, names in (
        ({}, ("dltensor",)),
        ({"max_version": (0, 8)}, ("dltensor",)),
        ({"max_version": (1, 0)}, ("dltensor_versioned", "dltensor")),
        ({"max_version": (2, 0)}, ("dltensor_versioned", "dltensor")),
    ):
        capsule = repr(buffer.__dlpack__(**options))
        is_right = any(f'"{name}"' in capsule for name in names)
        expect(is_right, expected=f"a capsule {' or '.join(names)} for {options}", came=capsule)


@case(
    "transfer",
    "NumPy reads what is exported, and may not write to it",
    contract=EXPORT + "; Buffer: one immutable allocation.",
)
def dlpack_views_are_right(subject: Subject) -> None:
    _read_by_numpy(subject)
    for name in ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "complex64"):
        if is_held(subject, name):
            for shape in ((), (5,), (3, 4), (0, 2)):
                host = values(name, shape)
                view = np.from_dlpack(put(subject, host))
                expect_equal(view, host, f"{name}{list(shape)} by numpy.from_dlpack")
                expect_equal(view.flags.writeable, False, "flags.writeable of a shared view")


@case(
    "transfer",
    "what is exported outlives its buffer, and is given back with its last reader",
    contract=EXPORT + "; it keeps the memory until its consumer releases it.",
)
def dlpack_views_outlive_the_buffer(subject: Subject) -> None:
    _read_by_numpy(subject)
    gc.collect()
    has_statistics = statistics(subject.device) is not None
    before = bytes_in_use(subject.device) if has_statistics else 0
    wanted = np.arange(1 << 16, dtype=np.int32)
    buffer = put(subject, wanted, subject.device)
    view, unread = np.from_dlpack(buffer), buffer.__dlpack__()
    buffer.delete()
    del buffer
    gc.collect()
    put(subject, np.full(1 << 16, -1, np.int32)).block_until_ready()
    expect_equal(view, wanted, "a view of a deleted buffer")
    del view, unread
    gc.collect()
    put(subject, X).block_until_ready()  # a call releases what other threads queued
    if has_statistics:
        gc.collect()
        expect_equal(bytes_in_use(subject.device), before, "bytes in use afterwards")


@case(
    "transfer",
    "copy=True gives the consumer memory of its own",
    contract="Buffer.__dlpack__: copy=True always copies.",
)
def dlpack_copies_on_request(subject: Subject) -> None:
    _read_by_numpy(subject)
    buffer = put(subject, X).block_until_ready()
    copied = np.from_dlpack(buffer, copy=True)
    apart = copied.ctypes.data != buffer.unsafe_buffer_pointer()
    expect(apart, expected="another address", came="the buffer's own")
    expect_equal(copied, X, "the copy")
    shared = np.from_dlpack(buffer, copy=False)
    address = buffer.unsafe_buffer_pointer()
    expect_equal(shared.ctypes.data, address, "the address of what copy=False gives")


@case(
    "transfer",
    "dl_device takes the buffer's own device and refuses one that is not there",
    contract="Buffer.__dlpack__: raises BufferError if the data cannot be had on dl_device.",
)
def dlpack_device_is_honoured(subject: Subject) -> None:
    _exports(subject)
    buffer = put(subject, X)
    own = buffer.__dlpack_device__()
    capsule = repr(buffer.__dlpack__(dl_device=own, max_version=(1, 0)))
    expect("dltensor" in capsule, expected="a capsule", came=capsule)
    with expect_error(BufferError):
        buffer.__dlpack__(dl_device=NO_DEVICE, max_version=(1, 0))


@case(
    "transfer",
    "a deleted buffer exports nothing",
    contract=DELETED,
)
def deleted_buffer_exports_nothing(subject: Subject) -> None:
    _exports(subject)
    buffer = put(subject, X)
    buffer.delete()
    with expect_error(DeletedError):
        buffer.__dlpack__()
    with expect_error(DeletedError):
        buffer.__dlpack__(max_version=(1, 0))


@case(
    "transfer",
    "elements of less than a byte are exported, or refused with a typed error",
    contract=EXPORT,
)
def dlpack_of_small_elements(subject: Subject) -> None:
    _exports(subject)
    names = [e.name for e in dtypes.ELEMENT_TYPES if e.bits < 8 and is_held(subject, e.name)]
    require(names, "it holds no such dtype")
    for name in names:
        buffer = put(subject, values(name, (4,)))
        try:
            capsule: Any = buffer.__dlpack__()
        except (BufferError, UnimplementedError):
            continue
        expect("dltensor" in repr(capsule), expected=f"a capsule of {name}", came=repr(capsule))


@case(
    "transfer",
    "options of a wrong type are refused, and nothing ends the process",
    contract="Buffer.__dlpack__: what is of another type than the protocol has it is refused.",
)
def dlpack_options_of_a_wrong_type(subject: Subject) -> None:
    _exports(subject)
    buffer = put(subject, X)
    for options in ({"max_version": ("1", 0)}, {"dl_device": (1,)}, {"dl_device": 1}):
        with expect_error(Exception):
            buffer.__dlpack__(**options)
    expect_equal(np.asarray(buffer), X, "the buffer afterwards")
