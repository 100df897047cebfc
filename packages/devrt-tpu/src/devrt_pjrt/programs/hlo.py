"""What an optimised HLO module says of its parameters, results, donations and shardings.

Source: ``hlo.proto`` and ``xla_data.proto`` of XLA, whose field numbers are used here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from devrt.errors import InvalidArgumentError
from devrt.layout import Layout, row_major
from devrt.wire.protobuf import fields, ints
from devrt_pjrt.buffers.layout import lies_dense
from devrt_pjrt.buffers.spec import Spec, spec_of

__all__ = ["TO_BUFFER_TYPE", "HloFacts", "Parameter", "custom_calls", "read_module"]

TO_BUFFER_TYPE = {
    **{number: number for number in range(1, 13)},
    15: 14,
    16: 13,
    18: 15,
    19: 16,
    20: 17,
    21: 21,
    22: 22,
    23: 18,
    24: 19,
    25: 20,
    26: 24,
    27: 25,
    28: 26,
    29: 27,
    32: 29,
    33: 28,
}
"""XLA's primitive types, and the C API's names for them."""

_COLLECTIVES = (
    b"all-reduce",
    b"all-gather",
    b"all-to-all",
    b"reduce-scatter",
    b"collective-",
)
_PERHAPS = (
    *_COLLECTIVES,
    b"custom-call",
    b"partition-id",
    b"replica-id",
    b"send",
    b"recv",
    b"-start",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One array that a program takes or returns, as each device sees it.

    Attributes
    ----------
    spec : Spec or None
        Its dtype and shape; None for a token or a type that the C API has no name for.
    layout : Layout
        How it lies in memory.
    """

    spec: Spec | None
    layout: Layout

    @property
    def is_dense(self) -> bool:
        """Whether its dimensions lie as those of a row-major array do, whatever its tiles."""
        return self.spec is None or lies_dense(
            Layout(self.layout.minor_to_major()), self.spec.shape
        )


@dataclasses.dataclass(frozen=True, slots=True)
class HloFacts:
    """What devrt needs to know of a compiled module.

    Attributes
    ----------
    parameters, results : tuple of Parameter
        In order.
    donated : tuple of int
        Numbers of the parameters whose memory the program may take over.
    parameter_shardings, result_shardings : tuple of bytes
        Serialised ``OpSharding`` messages; empty where there is one partition.
    may_communicate, is_collective : bool
        Whether devices may wait for each other, and whether they certainly do.
    has_loop : bool
        Whether it may take any time, however little it works on.
    feed : str
        The operation that waits for the host, ``infeed`` or ``outfeed``; empty without one.
    """

    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    donated: tuple[int, ...]
    parameter_shardings: tuple[bytes, ...]
    result_shardings: tuple[bytes, ...]
    may_communicate: bool
    is_collective: bool
    has_loop: bool
    feed: str = ""


def read_module(data: bytes, *, with_config: bool) -> HloFacts:
    """Read a serialised module.

    Parameters
    ----------
    data
        A ``HloModuleProto``, or a ``HloModuleProtoWithConfig``.
    with_config
        Which of the two.
    """
    module, config = _halves(data) if with_config else (memoryview(data), None)
    parameters: tuple[Parameter, ...] = ()
    results: tuple[Parameter, ...] = ()
    donated: list[int] = []
    given: list[bytes] = []
    made: list[bytes] = []
    for number, value in fields(module):
        if isinstance(value, int):
            continue
        if number == 4:
            parameters, results = _signature(value)
        elif number in (8, 18):
            donated += _donations(value, 2 if number == 8 else 1)
        elif number == 12:
            made = _parts(bytes(value))
        elif number == 14:
            given.append(bytes(value))
    if config is not None:
        # The module's own signature has default layouts; the configuration has those in force.
        parameters, results = _laid_out(config) or (parameters, results)
    return HloFacts(
        parameters,
        results,
        tuple(sorted(set(donated))),
        tuple(given),
        tuple(made),
        may_communicate=any(word in data for word in _PERHAPS),
        is_collective=any(word in data for word in _COLLECTIVES),
        has_loop=b"while" in data,
        feed=_feed(module) if b"infeed" in data or b"outfeed" in data else "",
    )


def _feed(module: memoryview) -> str:
    opcodes = {_text(instruction, 2) for instruction in _instructions(module)}
    return min(opcodes & {"infeed", "outfeed"}, default="")


def _instructions(module: memoryview) -> Iterator[memoryview]:
    for computation in _messages(module, 3):
        yield from _messages(computation, 2)


def custom_calls(data: bytes, *, with_config: bool) -> list[str]:
    """Return the targets of a serialised module's custom calls, each once."""
    module = _halves(data)[0] if with_config else memoryview(data)
    found = {
        _text(instruction, 28)
        for instruction in _instructions(module)
        if _text(instruction, 2) == "custom-call"
    }
    return sorted(found)


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (v for n, v in fields(data) if n == wanted and not isinstance(v, int))


def _text(data: memoryview, wanted: int) -> str:
    return next((bytes(v).decode(errors="replace") for v in _messages(data, wanted)), "")


def _halves(data: bytes) -> tuple[memoryview, memoryview | None]:
    """Return the module, and the configuration's entry computation layout."""
    found = {number: value for number, value in fields(data) if not isinstance(value, int)}
    config = found.get(2, memoryview(b""))
    layout = next((v for n, v in fields(config) if n == 1 and not isinstance(v, int)), None)
    return found.get(1, memoryview(b"")), layout


Signature = tuple[tuple[Parameter, ...], tuple[Parameter, ...]]


def _laid_out(layout: memoryview) -> Signature | None:
    found = _signature(layout)
    return found if any(found) else None


def _signature(data: memoryview) -> Signature:
    parameters = []
    results: tuple[Parameter, ...] = ()
    for number, value in fields(data):
        if isinstance(value, int):
            continue
        if number == 1:
            parameters.append(_shape(value))
        elif number == 2:
            parts = [part for kind, part in fields(value) if kind == 4]
            is_tuple = (2, 13) in [(n, v) for n, v in fields(value) if isinstance(v, int)]
            whole = parts if is_tuple else [value]
            results = tuple(_shape(part) for part in whole if not isinstance(part, int))
    return tuple(parameters), results


def _shape(data: memoryview) -> Parameter:
    kind, dims, order, tiles = 0, [], [], []
    for number, value in fields(data):
        if number == 2 and isinstance(value, int):
            kind = value
        elif number == 3:
            dims += ints(value)
        elif number == 5 and not isinstance(value, int):
            parts = list(fields(value))
            order = [i for n, v in parts if n == 1 for i in ints(v)]
            tiles = [_tile(v) for n, v in parts if n == 6 and not isinstance(v, int)]
    code = TO_BUFFER_TYPE.get(kind)
    spec = None if code is None else spec_of(code, tuple(dims))
    if len(order) != len(dims):
        return Parameter(spec, row_major(len(dims)))
    try:
        return Parameter(spec, Layout(order, tiles))
    except InvalidArgumentError:  # tiles that join dimensions, which have no text here
        return Parameter(spec, Layout(order))


def _tile(data: memoryview) -> list[int]:
    return [extent for number, value in fields(data) if number == 1 for extent in ints(value)]


def _donations(data: memoryview, number_of_parameter: int) -> Iterator[int]:
    for number, entry in fields(data):
        if number == 1 and not isinstance(entry, int):
            found = [v for n, v in fields(entry) if n == number_of_parameter]
            yield next((v for v in found if isinstance(v, int)), 0)


def _parts(sharding: bytes) -> list[bytes]:
    """Return the shardings in a tuple's, or the one that it is."""
    parts = [bytes(v) for n, v in fields(sharding) if n == 5 and not isinstance(v, int)]
    is_tuple = any(n == 1 and v == 2 for n, v in fields(sharding))
    return parts if is_tuple else [sharding]
