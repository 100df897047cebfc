"""Every exported program of a folder of cases, through real plugins: many minutes.

``STABLEHLO_CASES`` names the folder: ``programs/NAME.mlirbc``, ``NAME.npz`` with ``in0..`` and
``out0..``, and ``programs.json``.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from devrt.errors import UnimplementedError
from support import python

pytestmark = [pytest.mark.stress, pytest.mark.engine]

FOLDER = Path(os.environ.get("STABLEHLO_CASES", "")) / "programs"
ABOUT = json.loads((FOLDER / "programs.json").read_text()) if FOLDER.is_dir() else {}
WITH_DATA = sorted(path.stem for path in FOLDER.glob("*.npz")) if FOLDER.is_dir() else []
SHARDED = [name for name in WITH_DATA if ABOUT[name]["small"]["nr_devices"] > 1]
# The custom calls of linear algebra are the runtime's own, and no plugin has them.
SINGLE = [
    name for name in WITH_DATA if name not in SHARDED and not ABOUT[name]["small"]["custom_calls"]
]


@pytest.fixture(autouse=True)
def _needs_cases():
    if not WITH_DATA:
        pytest.skip("STABLEHLO_CASES names no folder of cases")


def load(name):
    data = np.load(FOLDER / f"{name}.npz")
    found = {kind: sum(key.startswith(kind) for key in data.files) for kind in ("in", "out")}
    arrays = [[data[f"{kind}{i}"] for i in range(count)] for kind, count in found.items()]
    return (FOLDER / f"{name}.mlirbc").read_bytes(), *arrays


def as_spec(array, dtype):
    return array if array.dtype == dtype else array.view(dtype)


@pytest.mark.parametrize("name", SINGLE or ["-"])
def test_a_program_gives_on_the_cpu_what_it_gave(xla_cpu, name):
    program, arguments, wanted = load(name)
    executable = xla_cpu.compile_and_load(program)
    specs = executable.parameter_specs()
    assert len(specs) == len(arguments)
    put = [
        xla_cpu.buffer_from_pyval(as_spec(a, s.dtype))
        for a, s in zip(arguments, specs, strict=True)
    ]
    made = [np.asarray(buffer) for buffer in executable.execute(put)]
    assert len(made) == len(wanted)
    for got, want in zip(made, wanted, strict=True):
        want = as_spec(want, got.dtype)
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            # 16-bit floats round differently with the order of sums.
            rough = got.dtype.itemsize == 2
            wide = np.complex128 if got.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                got.astype(wide), want.astype(wide), rtol=2e-2 if rough else 1e-4,
                atol=2e-2 if rough else 1e-5,
            )  # fmt: skip
    try:
        data = executable.serialize()
    except UnimplementedError:
        return  # this plugin cannot serialise programs that sort
    (first, *_) = xla_cpu.deserialize_executable(data).execute(put)
    assert np.asarray(first).tobytes() == made[0].tobytes()


COMPILE = """
import json, sys
from devrt.runtime import make_pjrt_topology
from devrt.errors import DevrtError
platform, topology, partitions, *paths = sys.argv[1:]
described = make_pjrt_topology(platform, topology)
for path in paths:
    try:
        options = {"num_partitions": int(partitions)} if int(partitions) > 1 else {}
        made = described.compile(open(path, "rb").read(), **options)
        memory = made.memory_analysis()
        try: cost = made.cost_analysis().get("flops", -1.0)
        except DevrtError: cost = None
        print(json.dumps([path, len(made.serialize()), memory.argument_size_in_bytes, cost]))
    except DevrtError as error:
        print(json.dumps([path, type(error).__name__ + ": " + error.message[:300], 0, 0]))
"""


def compiled(platform, topology, names, partitions=1):
    files = [FOLDER / f"{name}.mlirbc" for name in names]
    done = python(COMPILE, platform, topology, partitions, *files, options=(), timeout=580)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == len(names)
    failed = {Path(row[0]).stem: row[1] for row in rows if not isinstance(row[1], int)}
    assert not failed
    return rows


def test_programs_of_one_device_compile_for_a_tpu(libtpu):
    assert all(size > 1000 and flops for _, size, _, flops in compiled("tpu", "v5e:1x1", SINGLE))


def test_sharded_programs_compile_for_several_tpus(libtpu):
    compiled("tpu", "v5e:2x2", SHARDED, partitions=4)


def test_programs_compile_for_a_gpu(cuda):
    compiled("cuda", "h100:1x1x1", SINGLE)
