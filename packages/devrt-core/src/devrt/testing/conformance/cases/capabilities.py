"""What a client claims to do works; what it denies is refused, or not used."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.contract import Buffer, HostBufferSemantics
from devrt.errors import DevrtError, UnimplementedError
from devrt.layout import Layout
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import Failure, expect, expect_equal, expect_error, require
from devrt.testing.conformance.material import put
from devrt.testing.conformance.programs import DOUBLE, compiled, takes_programs
from devrt.testing.conformance.subject import Subject

LAYOUTS = "Capabilities.layouts: Client.buffer_from_pyval takes a layout"
NO_LAYOUTS = "Capabilities.layouts: without it a layout is a TypeError or an UnimplementedError"
STREAMS = (
    "Capabilities.streams: Device.get_stream_for_external_ready_events returns a handle, and "
    "__dlpack__ takes the consumer's as stream"
)
NO_STREAMS = "Device.get_stream_for_external_ready_events: raises UnimplementedError on platforms "
NO_STREAMS += "without streams"
AT_ONCE = "Capabilities.asynchronous: without it every buffer is ready at once"
NO_DONATION = "Capabilities.donation: without it the program is refused, or its arguments are "
NO_DONATION += "copied"
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _laid_out(subject: Subject, layout: Layout) -> Buffer:
    client: Any = subject.client  # the contract's own members take no layout
    made: Buffer = client.buffer_from_pyval(X, subject.device, layout=layout)
    return made


@case("transfer", "a buffer lies in the order that was requested", contract=LAYOUTS)
def layouts_are_taken(subject: Subject) -> None:
    require(subject.client.capabilities.layouts, "it takes no layouts")
    for order in ((2, 1, 0), (0, 1, 2), (1, 2, 0)):
        made = _laid_out(subject, Layout(order))
        expect_equal(made.layout.minor_to_major(), order, "the order of the buffer's layout")
        expect_equal(np.asarray(made), X, f"what was put with the order {order}")


@case("transfer", "a layout is refused where none are taken", contract=NO_LAYOUTS)
def absence_of_layouts_is_reported(subject: Subject) -> None:
    require(not subject.client.capabilities.layouts, "it takes layouts")
    try:
        _laid_out(subject, Layout((0, 1, 2)))
    except (TypeError, UnimplementedError):
        pass
    else:
        raise Failure("TypeError or UnimplementedError", "a buffer")
    expect_equal(np.asarray(put(subject, X)), X, "what is put without a layout")


@case("transfer", "devices have streams, which exports take", contract=STREAMS)
def streams_are_there(subject: Subject) -> None:
    require(subject.client.capabilities.streams, "it has no streams")
    for device in subject.devices:
        stream = device.get_stream_for_external_ready_events()
        is_handle = isinstance(stream, int) and not isinstance(stream, bool)
        expect(is_handle, expected="a handle, an integer", came=repr(stream))
        if subject.client.capabilities.dlpack:
            capsule = repr(put(subject, X, device).__dlpack__(stream=stream))
            expect("dltensor" in capsule, expected="a capsule for that stream", came=capsule)


@case("transfer", "a platform without streams says so with a typed error", contract=NO_STREAMS)
def absence_of_streams_is_reported(subject: Subject) -> None:
    require(not subject.client.capabilities.streams, "it has streams")
    for device in subject.devices:
        with expect_error(UnimplementedError):
            device.get_stream_for_external_ready_events()


@case("transfer", "buffers of a client that is not asynchronous are ready at once",
      contract=AT_ONCE)  # fmt: skip
def synchronous_buffers_are_ready_at_once(subject: Subject) -> None:
    require(not subject.client.capabilities.asynchronous, "its client is asynchronous")
    host = np.arange(1 << 20, dtype=np.float32)
    for semantics in HostBufferSemantics:
        made = subject.client.buffer_from_pyval(host, subject.device, False, semantics)
        copied = made.copy_to_memory(made.memory, may_alias=False)
        ready = made.is_ready(), copied.is_ready(), made.clone().is_ready()
        expect_equal(
            ready, (True,) * 3, f"is_ready() of a buffer, copy and clone, {semantics.name}"
        )
    if "stablehlo" in subject.client.capabilities.formats:
        (result,) = compiled(subject, DOUBLE).execute([put(subject, host[:8], subject.device)])
        expect_equal(result.is_ready(), True, "is_ready() of a result")


@case("execute", "a client that takes no arguments over leaves them as they are",
      contract=NO_DONATION)  # fmt: skip
def absence_of_donation_spares_arguments(subject: Subject) -> None:
    require(not subject.client.capabilities.donation, "its programs take arguments over")
    client, one = takes_programs(subject), np.ones(8, np.float32)
    try:
        add = client.compile_and_load(DOUBLE.replace("%a: tensor<8xf32>", "%a: tensor<8xf32> "
                                      "{tf.aliasing_output = 0 : i32}"))  # fmt: skip
    except DevrtError:
        return  # refused
    argument = put(subject, one, subject.device)
    (result,) = add.execute([argument])
    expect_equal(np.asarray(result), one + one, "the result")
    expect_equal(argument.is_deleted(), False, "is_deleted() of the argument")
    expect_equal(np.asarray(argument), one, "the argument after the call")
