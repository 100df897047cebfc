"""Topologies, and programs compiled for devices that are not there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from devrt.errors import InvalidArgumentError
from devrt_pjrt.library.values import check_types
from devrt_tpu._topology import GENERATIONS, check
from support import python, run_python

PROGRAMS = Path(__file__).parents[1] / "programs"


@pytest.mark.parametrize(
    "name",
    ["v5e:0x0", "v5e:4x0", "v9:2x2", "v5e", "v5e:2", "v5e:2x2x2x2", "v5e:4y4", "v5e:1000x1000x9",
     "v5e:x4", "v5e:4x", "v5e:-1x4", "V5E:2x2", "v5e:999999999999999999x1", "v5e: 2x2"],
)  # fmt: skip
def test_a_name_that_the_library_does_not_survive_is_refused(name):
    with pytest.raises(InvalidArgumentError, match=re.escape(name)):
        check(name, {})


@pytest.mark.parametrize("name", ["", *(f"{g}:2x2x1"[: 6 + len(g)] for g in GENERATIONS)])
def test_names_of_every_generation_are_taken(name):
    check(name.rstrip("x"), {})


@pytest.mark.parametrize(
    "options",
    [
        {"num_slices": 0},
        {"num_slices": 1 << 20},
        {"wrap": []},
        {"chips_per_host_bounds": [0, 1, 1]},
        {"chips_per_host_bounds": [1] * 9},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(InvalidArgumentError, match="topology option"):
        check("v5e:2x2", options)


def test_options_of_a_wrong_type_are_refused():
    known = {"number": int, "names": (list, tuple), "flag": bool, "real": float}
    check_types({"number": 1, "names": (1,), "flag": True, "real": 1.0, "other": None}, known, "x")
    for bad in ({"number": True}, {"number": "1"}, {"names": 3}, {"flag": 1}, {"real": 1}):
        with pytest.raises(InvalidArgumentError, match="must be of type"):
            check_types(bad, known, "x")


def run(code, **env):
    return python(code, options=(), **env).stdout


TPU = """
import json
from devrt.runtime import make_pjrt_topology
from devrt.errors import DevrtError
import devrt_pjrt as pjrt
"""


def test_tpus_are_described_without_one(libtpu):
    output = run(
        TPU
        + """
sizes = {}
for name in ("v2:2x2", "v3:2x2", "v4:2x2x1", "v5e:4x4", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"):
    t = make_pjrt_topology("tpu", name)
    devices = t._make_compile_only_devices()
    assert devices[0].coords == (0, 0, 0) and devices[0].device_kind.startswith("TPU")
    again = pjrt.deserialize_topology(pjrt.loaded_library("tpu"), "tpu", t.serialize())
    assert again.fingerprint() == t.fingerprint()
    sizes[name] = len(devices)
sizes["megacore"] = len(
    make_pjrt_topology("tpu", "v4:2x2x1", chip_config_name="megacore")._make_compile_only_devices())
for bad in (dict(bogus=1), dict(wrap=[1])):
    try:
        make_pjrt_topology("tpu", "v5e:2x2", **bad)
        raise SystemExit("taken")
    except DevrtError:
        pass
try:
    pjrt.make_client(pjrt.loaded_library("tpu"), "tpu")
except DevrtError as error:
    sizes["client"] = type(error).__name__
print(json.dumps(sizes))
"""
    )
    sizes = json.loads(output.splitlines()[-1])
    assert sizes.pop("client")
    assert list(sizes.values()) == [8, 8, 8, 16, 4, 4, 8, 4]


def test_programs_are_compiled_for_tpus(libtpu):
    output = run(
        TPU
        + f"""
from pathlib import Path
folder = Path({str(PROGRAMS)!r})
one, four = make_pjrt_topology("tpu", "v5e:1x1"), make_pjrt_topology("tpu", "v5e:2x2")
for name in ("mlp", "attention_bf16", "control_flow"):
    e = one.compile((folder / (name + ".mlirbc")).read_bytes())
    assert e.memory_analysis().generated_code_size_in_bytes > 0 and len(e.serialize()) > 1000
    assert e.cost_analysis()["flops"] > 0 and e.output_specs()
for name in ("gspmd_mlp", "shard_map_dp"):
    program = (folder / (name + ".mlirbc")).read_bytes()
    e = four.compile(program, num_partitions=4)
    assert e.num_partitions == 4 and e.facts.parameter_shardings
    assert e.fingerprint == four.compile(program, num_partitions=4).fingerprint
try:
    one.compile("module {{ func.func @main() {{ return %x }} }}")
except DevrtError as error:
    print(type(error).__name__)
"""
    )
    assert output.splitlines()[-1] == "InvalidArgumentError"


def test_the_command_compiles_for_a_topology(libtpu, tmp_path):
    output = tmp_path / "mlp.exe"
    command = ["-m", "devrt", "compile", PROGRAMS / "mlp.mlir"]
    done = run_python(*command, "--topology", "v5e:1x1", "-o", output, "--json")
    report = json.loads(done.stdout)
    assert report["bytes"] == output.stat().st_size
    assert report["device_kind"] == "TPU v5 lite"
    assert (report["num_replicas"], report["num_partitions"]) == (1, 1)
    assert report["memory"]["argument_size_in_bytes"] > 0
    assert report["cost"]["flops"] > 0
    none = tmp_path / "none.exe"
    done = run_python(*command, "--topology", "v5e:0x1", "-o", none, status=1)
    assert "at least 1" in done.stderr
    assert not none.exists()


def test_the_cuda_library_says_what_it_lacks(cuda):
    output = run(
        f"""
import devrt_pjrt as pjrt
from devrt.errors import DevrtError
from devrt_cuda.traits import CUDA
library = pjrt.library_for("cuda", {cuda!r}, traits=[CUDA])
print(library.attributes()["stablehlo_current_version"], library.version[1] > 100)
for act in (lambda: pjrt.make_client(library, "cuda"),
            lambda: pjrt.make_topology(library, "cuda", "", dict(topology=1)),
            lambda: pjrt.make_topology(library, "cuda", "", dict(target_config=b"x")),
            lambda: pjrt.make_topology(library, "cuda", "", dict(topology="1x1x1"))):
    try:
        act(); print("made")
    except DevrtError as error:
        print(type(error).__name__)
"""
    )
    lines = output.splitlines()
    assert lines[0].endswith("True")
    assert "InvalidArgumentError" in lines[2:]
    assert "made" not in lines[1:3]


def test_two_processes_describe_topologies_at_once(libtpu):
    code = (
        "import sys; from devrt.runtime import make_pjrt_topology\n"
        "print(make_pjrt_topology('tpu', 'v5e:2x2'), flush=True); sys.stdin.read()"
    )
    env = {name: value for name, value in os.environ.items() if "TPU" not in name}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True, env=env
        )
        for _ in range(2)
    ]
    output = [process.stdout.readline() for process in started]  # both are inside now
    errors = [process.communicate("", timeout=60)[1] for process in started]
    assert output == ["PjrtTopology('tpu', 4 devices)\n"] * 2, errors


def test_every_generation_leads_to_this_distribution():
    from devrt.plugins.discovery.known import wheels_for_topology

    assert {name: wheels_for_topology(f"{name}:2x2") for name in GENERATIONS} == {
        name: {"tpu": "devrt-tpu"} for name in GENERATIONS
    }
