"""Layouts, shardings by number and specs with sums: the same of JAX and of devrt in one process."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import devrt
from devrt import layout, sharding

# Read when jax is imported and when its first client is made; not left for other tests to see.
with pytest.MonkeyPatch.context() as _environ:
    _environ.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    jax = pytest.importorskip("jax")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
pytest.importorskip("devrt_cpu")
theirs = pytest.importorskip("jax.experimental.layout")
if not hasattr(theirs, "Format"):
    pytest.skip("this jax has no Format", allow_module_level=True)

SPECS = [(), ("x",), ("y",), (None, "y"), ("y", "x"), (("x", "y"),), (None, ("y", "x")), ("x", "y")]
ORDERS = list(itertools.permutations(range(3)))
X = np.arange(8 * 8 * 2, dtype=np.float32).reshape(8, 8, 2)


@pytest.fixture(scope="module", autouse=True)
def _jax_has_eight_devices():
    if len(jax.devices("cpu")) != 8:
        pytest.skip("JAX was set up with another number of devices before this test")


def pair(cpu, spec):
    """Return one sharding of each library."""
    grid = np.array(jax.devices("cpu")).reshape(4, 2)
    yours = jax.sharding.NamedSharding(
        jax.sharding.Mesh(grid, ("x", "y")), jax.sharding.PartitionSpec(*spec)
    )
    mesh = devrt.make_mesh((4, 2), ("x", "y"), devices=cpu)
    return sharding.NamedSharding(mesh, sharding.P(*spec)), yours


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_arrays_are_put_in_the_same_layouts(cpu, spec, order):
    mine, yours = pair(cpu, spec)
    a = devrt.device_put(X, layout.Format(layout.Layout(major_to_minor=order), mine))
    b = jax.device_put(X, theirs.Format(theirs.Layout(major_to_minor=order), yours))
    assert a.format.layout.major_to_minor == b.format.layout.major_to_minor == order
    np.testing.assert_array_equal(a, b)
    for one, other in zip(a.addressable_shards, b.addressable_shards, strict=True):
        assert one.data.format.layout.major_to_minor == other.data.format.layout.major_to_minor
        np.testing.assert_array_equal(one.data, other.data)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("ndim", [2, 3])
def test_shardings_have_the_same_numbers(cpu, spec, ndim):
    mine, yours = pair(cpu, spec)
    op, hlo = mine.op_sharding(ndim), yours._to_xla_hlo_sharding(ndim)
    assert op.is_replicated == hlo.is_replicated()
    if not op.is_replicated:
        assert list(op.tile_dims) == hlo.tile_assignment_dimensions()
        assert list(op.devices) == hlo.tile_assignment_devices()
        assert op.replicate_on_last_tile_dim == hlo.replicate_on_last_tile_dim()
    read = sharding.GSPMDSharding(cpu, hlo.to_proto().SerializeToString())
    assert read.is_equivalent_to(mine, ndim)


def test_the_same_formats_are_refused(cpu):
    mine, yours = pair(cpu, ("x",))
    cases = [
        lambda lib, s: lib.Format(lib.Layout(major_to_minor=(0, 1))),
        lambda lib, s: lib.Format("row-major", s),
        lambda lib, s: lib.Format(None, "cpu"),
        lambda lib, s: lib.put(X, lib.Format(lib.Layout.AUTO, s)),
        lambda lib, s: lib.put(X, lib.Format(lib.Layout.AUTO)),
        lambda lib, s: lib.put(X, lib.Format(lib.Layout(major_to_minor=(0, 1)), s)),
    ]

    class Library:
        def __init__(self, module, put):
            self.Format, self.Layout, self.put = module.Format, module.Layout, put

    for case in cases:
        for library, where in (
            (Library(layout, devrt.device_put), mine),
            (Library(theirs, jax.device_put), yours),
        ):
            with pytest.raises((ValueError, TypeError)):
                case(library, where)


def test_specs_with_sums_are_equal_alike():
    cases = [{}, {"unreduced": {"y"}}, {"reduced": {"y"}}, {"unreduced": {"y"}, "reduced": {"z"}}]
    for one, other in itertools.product(cases, cases):
        mine = sharding.P("x", **one) == sharding.P("x", **other)
        assert mine == (
            jax.sharding.PartitionSpec("x", **one) == jax.sharding.PartitionSpec("x", **other)
        )
    for wrong in ({"unreduced": {"x"}}, {"reduced": {"x"}}, {"unreduced": ["y"]}):
        for spec in (sharding.P, jax.sharding.PartitionSpec):
            with pytest.raises((ValueError, TypeError)):
                spec("x", **wrong)
