"""Blocks made of pieces of buffers, and arrays that change their sharding, by random cases."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.contract import Assembly, Buffer, Piece
from devrt.errors import DeletedError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error, require
from devrt.testing.conformance.material import DELETED, Array, is_held, memories, put
from devrt.testing.conformance.subject import Subject

ASSEMBLE = "Client.assemble_buffers: start making blocks out of pieces of other buffers, and put "
ASSEMBLE += "them on targets"
DTYPES = ("uint8", "bool", "bfloat16", "float32", "int16", "complex128", "int4")


def _block(name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    numbers = random.integers(0, 2 if name == "bool" else 7, shape)
    made: Array = np.asarray(numbers).astype(dtypes.to_numpy(dtypes.by_name(name).code))
    return made


def _cut(
    subject: Subject, name: str, random: np.random.Generator
) -> tuple[Array, list[Buffer], list[Piece]]:
    """Cut a random block along random lines; each piece lies in a source with a margin around."""
    shape = tuple(int(n) for n in random.integers(1, 6, int(random.integers(0, 6))))
    block = _block(name, shape, random)
    cuts = [sorted({0, n, int(random.integers(0, n + 1))}) for n in shape]
    sources: list[Buffer] = []
    pieces: list[Piece] = []
    for cell in itertools.product(*(list(itertools.pairwise(cut)) for cut in cuts)):
        start = tuple(a for a, _ in cell)
        extent = tuple(b - a for a, b in cell)
        margin = tuple(int(m) for m in random.integers(0, 3, len(extent)))
        padded = _block(name, tuple(2 * m + n for m, n in zip(margin, extent, strict=True)), random)
        inside = tuple(slice(m, m + n) for m, n in zip(margin, extent, strict=True))
        padded[inside] = block[tuple(slice(a, b) for a, b in cell)]
        pieces.append(Piece(len(sources), margin, start, extent))
        sources.append(put(subject, padded, subject.devices[len(sources) % len(subject.devices)]))
    return block, sources, pieces


@case("shard", "random blocks of random pieces are as NumPy cuts them", contract=ASSEMBLE,
      deadline=60)  # fmt: skip
def random_blocks(subject: Subject) -> None:
    random, there = np.random.default_rng(29), memories(subject)
    names = [name for name in DTYPES if is_held(subject, name)]
    for number in range(60):
        name = names[number % len(names)]
        block, sources, pieces = _cut(subject, name, random)
        assembly = Assembly(block.shape, len(sources), (tuple(pieces),), (0, 0))
        targets: list[Any] = [subject.device, there[int(random.integers(len(there)))]]
        may_alias = bool(random.integers(2))
        made = subject.client.assemble_buffers(sources, assembly, targets, may_alias)
        what = f"block {number}: {name}{list(block.shape)} of {len(pieces)} pieces"
        for target, came in zip(targets, made, strict=True):
            expect(target in (came.device, came.memory), expected=target, came=came)
            expect_equal(np.asarray(came), block, what)


@case("shard", "rows become columns on other devices", contract=ASSEMBLE)
def rows_become_columns(subject: Subject) -> None:
    devices = subject.devices
    count = len(devices)
    for rows, dtype in ((2, np.float32), (1 << 12, np.int16), (3, np.uint8)):
        whole = np.arange(rows * count * count).astype(dtype).reshape(rows * count, count)
        offsets = [(rows * n, 0) for n in range(count)]
        shape = (rows, count)
        held = subject.client.batched_buffer_from_pyval(whole, devices, offsets, shape)
        columns = tuple(
            tuple(Piece(n, (0, m), (rows * n, 0), (rows, 1)) for n in range(count))
            for m in range(count)
        )
        assembly = Assembly((rows * count, 1), count, columns, tuple(range(count))[::-1])
        made = subject.client.assemble_buffers(held, assembly, devices)
        for number, (device, came) in enumerate(zip(devices, made, strict=True)):
            column = count - 1 - number
            expect(came.device is device, expected=device, came=came.device)
            expect_equal(np.asarray(came), whole[:, column : column + 1], f"column {column}")


@case("shard", "sources may be deleted as soon as the call has returned", contract=ASSEMBLE)
def sources_deleted_at_once(subject: Subject) -> None:
    whole = np.arange(1 << 18, dtype=np.int32)
    half = whole.size // 2
    for start, may_alias in itertools.product((0, half, 5), (True, False)):
        source = subject.client.buffer_from_pyval(whole, subject.device, False, 1)
        piece = Piece(0, (start,), (0,), (half,)) if start != 5 else Piece(0, (5,), (0,), (7,))
        assembly = Assembly(piece.extent, 1, ((piece,),), (0,))
        targets = [subject.devices[-1]]
        (made,) = subject.client.assemble_buffers([source], assembly, targets, may_alias)
        source.delete()
        put(subject, whole * 0 - 1).block_until_ready()
        expect_equal(np.asarray(made), whole[start : start + piece.extent[0]], "the part")


@case(
    "shard",
    "a block that may not alias has memory of its own",
    contract="Client.assemble_buffers: may_alias: whether a block that is one run of elements of a "
    "source in the same address space may share its memory",
)
def blocks_without_alias(subject: Subject) -> None:
    whole = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    source = put(subject, whole, subject.device).block_until_ready()
    assembly = Assembly(whole.shape, 1, ((Piece(0, (0, 0), (0, 0), whole.shape),),), (0,))
    (made,) = subject.client.assemble_buffers([source], assembly, [subject.device], False)
    apart = made.unsafe_buffer_pointer() != source.unsafe_buffer_pointer()
    expect(apart, expected="another address", came="the source's own")
    expect_equal(np.asarray(made), whole, "the block")


@case(
    "shard",
    "a deleted source is refused",
    contract=DELETED,
)
def deleted_sources_are_refused(subject: Subject) -> None:
    source = put(subject, np.arange(4, dtype=np.float32), subject.device)
    source.delete()
    assembly = Assembly((4,), 1, ((Piece(0, (0,), (0,), (4,)),),), (0,))
    with expect_error(DeletedError):
        np.asarray(subject.client.assemble_buffers([source], assembly, [subject.device])[0])


def _sharding(subject: Subject, count: int, random: np.random.Generator, rank: int) -> Any:
    """Return a random sharding over so many devices: a mesh in some order, a spec over its axes."""
    from devrt.sharding import Mesh, NamedSharding, PartitionSpec

    devices = [subject.devices[int(n)] for n in random.permutation(count)]
    rows = int(random.choice([n for n in range(1, count + 1) if count % n == 0]))
    mesh = Mesh(np.array(devices, object).reshape(rows, count // rows), ("x", "y"))
    choices: list[Any] = [("x", "y"), ("y", "x"), (("x", "y"), None), ("x", None), (None, None)]
    spec = list(choices[int(random.integers(len(choices)))])
    spec = (spec + [None] * rank)[:rank]
    return NamedSharding(mesh, PartitionSpec(*[spec[int(n)] for n in random.permutation(rank)]))


@case("shard", "arrays change between random shardings and stay what they are",
      contract="Client.assemble_buffers, by which devrt.device_put changes an array's sharding",
      deadline=60)  # fmt: skip
def random_reshardings(subject: Subject) -> None:
    import devrt

    count = min(len(subject.devices), 8)
    require(count > 1, "it has one device here")
    random = np.random.default_rng(31)
    for number in range(30):
        rank = int(random.integers(1, 4))
        shape = tuple(count * int(n) for n in random.integers(1, 4, rank))
        whole = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        array: Any = whole
        for step in range(4):
            sharding = _sharding(subject, count, random, rank)
            array = devrt.device_put(array, sharding)
            what = f"array {number} of {shape}, step {step}, {sharding.spec}"
            for shard in array.addressable_shards:
                expect_equal(np.asarray(shard.data), whole[shard.index], f"a shard of {what}")
            expect_equal(np.asarray(array), whole, what)


@case("shard", "a sharded array goes to one device and to the CPU whole",
      contract="Client.assemble_buffers and Client.batched_copy_to_host, by which devrt gathers "
      "arrays")  # fmt: skip
def sharded_arrays_are_gathered(subject: Subject) -> None:
    import devrt
    from devrt.sharding import Mesh, NamedSharding, PartitionSpec

    count = min(len(subject.devices), 8)
    require(count > 1, "it has one device here")
    whole = np.arange(count * 6, dtype=np.float32).reshape(count, 6)
    mesh = Mesh(np.array(subject.devices[:count], object), ("x",))
    array = devrt.device_put(whole, NamedSharding(mesh, PartitionSpec("x")))
    for device in subject.devices[:count]:
        gathered = devrt.device_put(array, device)
        expect(gathered.device is device, expected=device, came=gathered.device)
        expect_equal(np.asarray(gathered), whole, f"gathered on {device}")
    expect_equal(np.asarray(devrt.device_get(array)), whole, "gathered on the host")
