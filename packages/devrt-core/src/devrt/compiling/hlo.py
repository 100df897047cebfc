"""A compiled program as its compiler left it: XLA's ``HloModuleProto``.

The one reader of it in Python, for every client. The native engine reads for itself what a call
needs (``devrt/pjrt/engine/hlo_module.hpp``), so that compiling is one native call; all that is
shown of a program is read here. Field numbers: ``xla/service/hlo.proto``, ``xla/xla_data.proto``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Self

from devrt.contract.op_sharding import OpSharding
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.layout import Layout, row_major
from devrt.wire.protobuf import Message, fields

__all__ = ["ELEMENT_TYPE_CODES", "ELEMENT_TYPE_NAMES", "HloArray", "HloModule", "refuse_feed"]

ELEMENT_TYPE_NAMES = (
    "invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token c128 "
    "f8e5m2 f8e4m3fn s4 u4 f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1 "
    "f4e2m1fn f8e8m0fnu"
).split()
"""XLA's element types, by its numbers."""

_C_API_NAMES = (
    "invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn "
    "f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s4 u4 - s2 u2 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn"
).split()

ELEMENT_TYPE_CODES = MappingProxyType(
    {
        number: _C_API_NAMES.index(name)
        for number, name in enumerate(ELEMENT_TYPE_NAMES)
        if number and name in _C_API_NAMES
    }
)
"""The PJRT C API's number of each of XLA's element types that it has."""

_TUPLE_TYPE = 13
_TUPLE_SHARDING = 2
_COLLECTIVES = ("all-", "reduce-scatter", "collective-", "ragged-")
_PERHAPS = {"custom-call", "send", "recv", "send-done", "recv-done", "infeed", "outfeed"}
_NOTABLE = [name.encode() for name in (*_COLLECTIVES, "-start", "custom-call", "feed", "while")]
_NOTABLE += [b"send", b"recv"]


@dataclasses.dataclass(frozen=True, slots=True)
class HloArray:
    """One array that a program takes or returns, as each device sees it.

    Attributes
    ----------
    code : int or None
        The element type, as `devrt.dtypes` numbers it; None for a token, or what it has no name
        for.
    shape : tuple of int
        Dimensions.
    layout : Layout
        How it lies in memory.
    """

    code: int | None
    shape: tuple[int, ...]
    layout: Layout


@dataclasses.dataclass(frozen=True, slots=True)
class HloModule:
    """What a compiled module says of itself.

    Attributes
    ----------
    name : str
        The program's name.
    parameters, results : tuple of HloArray
        In order.
    donated : tuple of int
        Numbers of the parameters whose memory the program may take over.
    parameter_shardings, result_shardings : tuple of OpSharding
        Empty where there is one partition.
    opcodes : frozenset of str
        The instructions that it has; empty where none can wait, loop or call.
    custom_calls : tuple of str
        The targets of its custom calls, sorted.
    """

    name: str
    parameters: tuple[HloArray, ...]
    results: tuple[HloArray, ...]
    donated: tuple[int, ...]
    parameter_shardings: tuple[OpSharding, ...]
    result_shardings: tuple[OpSharding, ...]
    opcodes: frozenset[str]
    custom_calls: tuple[str, ...]

    @classmethod
    def read(cls, data: bytes, *, with_config: bool = True) -> Self:
        """Read a serialised module.

        It is a ``HloModuleProtoWithConfig``, as `LoadedExecutable.optimized_program` gives it;
        without ``with_config`` a ``HloModuleProto``. Raises `InvalidArgumentError` if the bytes are
        no such message.
        """
        whole = Message(data) if with_config else None
        module = Message(data) if whole is None else whole.message(1)
        parameters, results = _signature(module.message(4))
        if whole is not None:
            # The module's own signature has default layouts; the configuration those in force.
            laid_out = _signature(whole.message(2).message(1))
            parameters, results = laid_out if any(laid_out) else (parameters, results)
        # Reading thousands of instructions takes longer than loading them; a search does not.
        notable = any(name in data for name in _NOTABLE)
        opcodes, targets = _instructions(module.parts(3)) if notable else (set[str](), set[str]())
        return cls(
            name=module.text(1),
            parameters=parameters,
            results=results,
            donated=tuple(sorted({*_donated(module, 8, 2), *_donated(module, 18, 1)})),
            parameter_shardings=tuple(map(OpSharding.parse, module.parts(14))),
            result_shardings=tuple(map(OpSharding.parse, _shardings(module.parts(12)))),
            opcodes=frozenset(opcodes),
            custom_calls=tuple(sorted(targets)),
        )

    @property
    def is_collective(self) -> bool:
        """Whether devices wait for each other."""
        return any(opcode.startswith(_COLLECTIVES) for opcode in self.opcodes)

    @property
    def may_communicate(self) -> bool:
        """Whether devices may wait for each other."""
        return (
            self.is_collective
            or not _PERHAPS.isdisjoint(self.opcodes)
            or any(opcode.endswith("-start") for opcode in self.opcodes)
        )

    @property
    def has_loop(self) -> bool:
        """Whether it may take any time, however little it works on."""
        return "while" in self.opcodes


def refuse_feed(module: HloModule, platform: str, unload: Callable[[], None]) -> None:
    """Refuse an executable that waits for the host, which others compile: it would never end.

    Parameters
    ----------
    module
        What was loaded.
    platform
        The platform, for the error.
    unload
        Called before the refusal.

    Raises
    ------
    UnimplementedError
        If it has such an instruction.
    """
    feed = min(module.opcodes & {"infeed", "outfeed"}, default="")
    if feed:
        unload()
        msg = (
            f"deserialize_executable failed: program {module.name!r} exchanges data with the host "
            f"while it runs ({feed}), and nothing here does that: it would never end. Pass the "
            "data as arguments and results."
        )
        raise UnimplementedError(msg, operation="deserialize_executable", platform=platform)


def _instructions(computations: Iterable[memoryview]) -> tuple[set[str], set[str]]:
    """Return the opcodes, and the targets of the custom calls.

    There may be many: of most instructions only the beginning is read, up to the opcode.
    """
    opcodes: set[str] = set()
    targets: set[str] = set()
    for computation in computations:
        for number, instruction in fields(computation):
            if number != 2 or isinstance(instruction, int):
                continue
            opcode = next((bytes(v).decode(errors="replace") for v in _parts(instruction, 2)), "")
            opcodes.add(opcode)
            if opcode == "custom-call":
                targets.update(bytes(v).decode(errors="replace") for v in _parts(instruction, 28))
    return opcodes, targets


def _parts(message: memoryview, wanted: int) -> Iterator[memoryview]:
    return (v for n, v in fields(message) if n == wanted and not isinstance(v, int))


def _signature(shape: Message) -> tuple[tuple[HloArray, ...], tuple[HloArray, ...]]:
    parameters = tuple(_array(one) for one in shape.messages(1))
    result = shape.message(2)
    if 2 not in shape:
        return parameters, ()
    is_tuple = result.number(2) == _TUPLE_TYPE
    return parameters, tuple(map(_array, result.messages(4) if is_tuple else [result]))


def _array(shape: Message) -> HloArray:
    code, dims = ELEMENT_TYPE_CODES.get(shape.number(2)), tuple(shape.ints(3))
    layout = shape.message(5)
    order = layout.ints(1)
    if len(order) != len(dims):
        return HloArray(code, dims, row_major(len(dims)))
    try:
        return HloArray(code, dims, Layout(order, [tile.ints(1) for tile in layout.messages(6)]))
    except InvalidArgumentError:  # tiles that join dimensions, which have no text here
        return HloArray(code, dims, Layout(order))


def _donated(module: Message, field: int, parameter: int) -> Iterator[int]:
    """Yield the parameters of an ``HloInputOutputAliasProto``, or of an ``HloBufferDonorProto``."""
    return (entry.number(parameter) for entry in module.message(field).messages(1))


def _shardings(result: list[memoryview]) -> list[memoryview]:
    """Return the shardings of a tuple's elements, or the one that there is."""
    if not result:
        return []
    message = Message(result[-1])
    return message.parts(5) if message.number(1) == _TUPLE_SHARDING else result
