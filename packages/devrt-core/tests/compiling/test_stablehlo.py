"""What is read of StableHLO modules without a compiler, and shardings named by meshes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import devrt
from devrt.compiling.stablehlo import (
    ModuleFacts,
    for_older_readers,
    is_bytecode,
    module_facts,
    operations,
)
from devrt.contract.op_sharding import OpSharding
from devrt.errors import InvalidArgumentError
from devrt.programs import mesh_of, named_sharding
from devrt.sharding import Mesh, NamedSharding, PartitionSpec

PROGRAMS = Path(__file__).parents[3] / "devrt-cpu" / "tests" / "programs"
EXPECTED = {
    "gspmd_mlp": ModuleFacts(1, 4, ((("dp", 2), ("tp", 2)),)),
    "shard_map_dp": ModuleFacts(1, 4, ((("x", 4),),)),
    "mlp": ModuleFacts(1, 1, ()),
    "linalg": ModuleFacts(1, 1, ()),
    "gspmd_mlp_old": ModuleFacts(1, 4, ()),
}


@pytest.mark.parametrize("suffix", ["mlir", "mlirbc"])
@pytest.mark.parametrize("name", EXPECTED)
def test_text_and_bytecode_say_the_same(name, suffix):
    code = (PROGRAMS / f"{name}.{suffix}").read_bytes()
    assert is_bytecode(code) == (suffix == "mlirbc")
    assert module_facts(code) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_text_and_bytecode_are_written_in_the_same_operations(name):
    text = operations((PROGRAMS / f"{name}.mlir").read_bytes())
    assert "stablehlo.dot_general" in text or name.startswith("linalg")
    assert operations((PROGRAMS / f"{name}.mlirbc").read_bytes()) == text


def test_operations_in_comments_and_strings_do_not_count():
    text = b"""// stablehlo.add
      %0 = "stablehlo.negate"(%a) {name = "x = stablehlo.sine"} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %0 : tensor<f32>"""
    assert operations(text) == ("stablehlo.negate",)
    assert operations(b"ML\xefR") == ()


def test_only_what_was_refused_is_renamed():
    code = (PROGRAMS / "top_k.mlirbc").read_bytes()
    assert for_older_readers(code, "something else") is None
    refusal = "unregistered operation 'vhlo.composite_v2'"
    assert for_older_readers(b"vhlo.composite_v2", refusal) is None
    older = for_older_readers(code, refusal)
    assert older.replace(b"composite_v1", b"composite_v2") == code != older


def test_a_module_that_says_nothing_has_no_facts():
    assert module_facts(b"func.func @main() { return }") == ModuleFacts()


@given(st.data())
def test_broken_bytecode_says_nothing_or_something_but_never_fails(data):
    code = bytearray((PROGRAMS / "gspmd_mlp.mlirbc").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        code[data.draw(st.integers(4, len(code) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(4, len(code)))
    assert isinstance(module_facts(bytes(code[:end])), ModuleFacts)
    assert isinstance(operations(bytes(code[:end])), tuple)


# Shardings over meshes.

DEVICES = devrt.devices("cpu")[:8]
SHAPES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (2, 1, 4)]


def op_sharding(sharding, ndim):
    """Return what a compiler would say of a sharding, from where it puts an array's blocks."""
    shape = (64,) * ndim
    blocks = sharding.devices_indices_map(shape)
    counts = [64 // n for n in sharding.shard_shape(shape)]
    starts = {
        device: tuple((s.start or 0) * c // 64 for s, c in zip(index, counts, strict=True))
        for device, index in blocks.items()
    }
    by_tile = {tile: [] for tile in itertools.product(*map(range, counts))}
    for partition, device in enumerate(DEVICES):
        by_tile[starts[device]].append(partition)
    copies = len(DEVICES) // len(by_tile)
    if len(by_tile) == 1:
        return OpSharding()
    devices = tuple(p for tile in by_tile.values() for p in tile)
    return OpSharding(3, (*counts, copies), devices, replicate_on_last_tile_dim=True)


@st.composite
def shardings(draw):
    sizes = draw(st.sampled_from(SHAPES))
    names = tuple("abc"[: len(sizes)])
    order = draw(st.permutations(range(8)))
    grid = np.empty(8, object)
    grid[:] = [DEVICES[i] for i in order]
    mesh = Mesh(grid.reshape(sizes), names)
    ndim = draw(st.integers(1, 3))
    entries = [[] for _ in range(ndim)]
    for name in draw(st.permutations(names)):
        dim = draw(st.integers(0, ndim))
        if dim < ndim:
            entries[dim].append(name)
    return NamedSharding(mesh, PartitionSpec(*map(tuple, entries))), ndim


@given(shardings())
def test_what_a_mesh_can_say_is_named_again(case):
    sharding, ndim = case
    found = named_sharding(op_sharding(sharding, ndim), sharding.mesh, DEVICES)
    assert found.is_equivalent_to(sharding, ndim)
    sizes = sharding.mesh.shape
    named = [
        name for entry in found.spec for name in (entry if isinstance(entry, tuple) else [entry])
    ]
    assert all(sizes[name] > 1 for name in named if name)


@pytest.mark.parametrize(
    "sharding",
    [
        OpSharding(3, (8,), (0, 1, 2, 3, 4, 5, 7, 6)),
        OpSharding(3, (4, 2), (0, 2, 1, 3, 4, 6, 5, 7)),
        OpSharding(1, (), (3,)),
        OpSharding(3, (2, 4), (7, 6, 5, 4, 3, 2, 1, 0)),
    ],
)
def test_what_no_axes_can_say_is_refused(sharding):
    mesh = mesh_of([("a", 4), ("b", 2)], DEVICES)
    with pytest.raises(InvalidArgumentError, match="cannot say"):
        named_sharding(sharding, mesh, DEVICES)


def test_a_mesh_over_other_devices_is_refused():
    mesh = mesh_of([("a", 4)], DEVICES[:4])
    with pytest.raises(InvalidArgumentError, match="not the devices of"):
        named_sharding(OpSharding(), mesh, DEVICES)
    with pytest.raises(InvalidArgumentError, match="runs on 8"):
        mesh_of([("a", 4)], DEVICES)
