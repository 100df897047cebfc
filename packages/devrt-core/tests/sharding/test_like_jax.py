"""The same questions to JAX and to devrt, on eight CPU devices: the same answers.

JAX answers in a process of its own, because it reads its number of devices once.
"""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from support import python

pytest.importorskip("jax")

MESHES = [((8,), "a"), ((4, 2), "ab"), ((2, 4), "ab"), ((2, 2, 2), "abc"), ((8, 1), "ab")]
SHAPES = [(), (8,), (16, 8), (6, 8), (8, 3), (8, 8, 8), (0, 8), (0,)]


def specs(names):
    """Yield every spec of up to two entries, of single axes and ordered pairs, as lists."""
    pairs = list(map(list, itertools.permutations(names, 2)))
    entries = [None, *names, *pairs, "UNCONSTRAINED"]
    yield []
    for length in (1, 2):
        for spec in itertools.product(entries, repeat=length):
            used = [n for e in spec if e and e != "UNCONSTRAINED" for n in e]
            if len(set(used)) == len(used):
                yield list(spec)


def questions():
    return [(sizes, names, spec) for sizes, names in MESHES for spec in specs(names)]


def answers(devices, ns, errors):
    """Put all questions to one of the two libraries, whose names are in ``ns``."""
    made = []
    for sizes, names, entries in questions():
        grid = np.array(devices, dtype=object).reshape(sizes)
        spec = ns["PartitionSpec"](
            *(
                ns["PartitionSpec"].UNCONSTRAINED
                if e == "UNCONSTRAINED"
                else tuple(e)
                if isinstance(e, list)
                else e
                for e in entries
            )
        )
        made.append(ns["NamedSharding"](ns["Mesh"](grid, tuple(names)), spec))
    made.append(ns["SingleDeviceSharding"](devices[0]))
    return {
        "maps": [[_ask(s, shape, errors) for shape in SHAPES] for s in made],
        "replicated": [s.is_fully_replicated for s in made],
        "spec_reprs": [list(map(repr, s.spec)) for s in made[:-1]],
        "mesh_shapes": [list(map(list, s.mesh.shape_tuple)) for s in made[:-1]],
        "equal": [[a == b for b in made[::3]] for a in made[::3]],
        "equivalent": [[a.is_equivalent_to(b, 2) for b in made] for a in made],
        "compatible": [[_raises(s, shape, errors) for shape in SHAPES] for s in made],
    }


def _ask(sharding, shape, errors):
    if len(shape) < len(getattr(sharding, "spec", ())):
        return "too long"  # JAX has no typed error here
    try:
        indices = sharding.devices_indices_map(shape)
        block = sharding.shard_shape(shape)
    except errors:
        return "error"
    listed = [[d.id, [[s.start, s.stop, s.step] for s in i]] for d, i in indices.items()]
    return [listed, list(block)]


def _raises(sharding, shape, errors):
    try:
        sharding.check_compatible_aval(shape)
    except errors:
        return True
    return False


ASK_JAX = """
import importlib.util, json, sys
import jax
spec = importlib.util.spec_from_file_location("questions", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
json.dump(module.answers(jax.devices(), vars(jax.sharding), ValueError), sys.stdout)
"""


@pytest.fixture(scope="module")
def jax_answers():
    flags = "--xla_force_host_platform_device_count=8"
    file = Path(__file__).resolve()
    done = python(ASK_JAX, file, options=(), JAX_PLATFORMS="cpu", XLA_FLAGS=flags)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def our_answers(devices):
    ours = {
        "Mesh": Mesh,
        "NamedSharding": NamedSharding,
        "PartitionSpec": PartitionSpec,
        "SingleDeviceSharding": SingleDeviceSharding,
    }
    return json.loads(json.dumps(answers(devices[:8], ours, InvalidArgumentError)))


@pytest.mark.parametrize(
    "subject",
    ["maps", "replicated", "spec_reprs", "mesh_shapes", "equal", "equivalent", "compatible"],
)
def test_same_answer(jax_answers, our_answers, subject):
    theirs, ours = jax_answers[subject], our_answers[subject]
    requests = [*questions(), "single device"]
    assert len(theirs) == len(ours)
    assert [
        (requests[n] if len(theirs) == len(requests) else n, a, b)
        for n, (a, b) in enumerate(zip(theirs, ours, strict=True))
        if a != b
    ] == []


def test_the_questions_are_many():
    assert len(questions()) > 100
    assert all(math.prod(sizes) == 8 for sizes, _, _ in questions())
