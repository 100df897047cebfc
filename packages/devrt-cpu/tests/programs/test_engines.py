"""Which compiler a client has: the newest that is there, or the one that is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt.compiling import xla_cpu_libraries
from devrt.compiling.quirks import Quirk
from devrt.compiling.xla_cpu_engines import ENGINES, engine_named, recognised
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.runtime import Runtime
from devrt_cpu import _library, make_cpu_client
from devrt_cpu._library import Library, choose

pytestmark = pytest.mark.engine
PROGRAMS = Path(__file__).parent
ADD = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32> }"""
WHEELS = [engine.wheel for engine in ENGINES]
by_wheel = pytest.mark.parametrize("wheel", WHEELS)


def installed(wheel):
    found = {library.wheel: library for library in _library.installed()}
    return found.get(wheel) or pytest.skip(f"{wheel} is not installed")


@pytest.fixture
def nothing_cached():
    """Let what was found out of the installed wheels be found out anew, here and afterwards."""
    for cached in (_library._default, _library._found):
        cached.cache_clear()
    yield
    for cached in (_library._default, _library._found):
        cached.cache_clear()


@pytest.fixture
def wheels(monkeypatch, tmp_path, nothing_cached):
    """Return what makes wheels, by name and version, the only ones that are installed."""
    monkeypatch.delenv("DEVRT_CPU_ENGINE", raising=False)

    def install(**versions):
        named = {name.replace("_", "-"): version for name, version in versions.items()}
        for name in named:
            path = tmp_path / engine_named(name).library
            path.parent.mkdir(parents=True)
            path.touch()

        class Found:
            def __init__(self, name):
                if name not in named:
                    raise metadata.PackageNotFoundError(name)
                self.version = named[name]

            def locate_file(self, path):
                return tmp_path / path

        monkeypatch.setattr(metadata, "distribution", Found)

    return install


def outcome(client):
    (result,) = client.compile_and_load(ADD).execute(
        [client.buffer_from_pyval(np.arange(4, dtype=np.float32))]
    )
    return np.asarray(result).tolist()


@by_wheel
def test_each_engine_compiles_and_says_which_it_is(wheel):
    library = installed(wheel)
    with make_cpu_client(cpu_engine=wheel) as client:
        assert client.platform_version.endswith(_library._in_full(library))
        assert wheel in client.platform_version
        assert outcome(client) == [0.0, 2.0, 4.0, 6.0]


@by_wheel
def test_each_engine_is_what_its_row_says(wheel):
    library, engine = installed(wheel), engine_named(wheel)
    code = (
        "import sys; from devrt_cpu import _ext\n"
        "minor, stablehlo = _ext._identify_engine(sys.argv[1])\n"
        "print((0, minor), stablehlo)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, library.path], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{engine.c_api} {engine.stablehlo}"
    assert recognised(engine.c_api, engine.stablehlo).name == wheel
    expression = metadata.metadata(wheel).get("License-Expression", "")
    assert expression == engine.licence


@by_wheel
@pytest.mark.parametrize("name", ["mlp", "linalg", "shard_map_dp", "top_k"])
def test_each_engine_runs_exported_programs(wheel, name):
    installed(wheel)
    with np.load(PROGRAMS / f"{name}.npz") as stored:
        values = [stored[f"in{i}"] for i in range(sum(key.startswith("in") for key in stored))]
        expected = [stored[key] for key in sorted(stored) if key.startswith("out")]
    with make_cpu_client(num_devices=8, cpu_engine=wheel) as client:
        from devrt.programs import load_program

        program = load_program((PROGRAMS / f"{name}.mlirbc").read_bytes(), client)
        results = program(*values)
        results = results if isinstance(results, (list, tuple)) else (results,)
        found = [np.asarray(result) for result in results]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_executables_and_the_cache_are_one_engine_s_own(tmp_path, monkeypatch):
    from devrt_cpu import _ext

    here = [library.wheel for library in _library.installed()]
    if len(here) < 2:
        pytest.skip("needs two engines")
    compiled, original = [], _ext._compile
    monkeypatch.setattr(_ext, "_compile", lambda *a: compiled.append(a[1]) or original(*a))
    serialized = {}
    for wheel in here * 2:
        with Runtime() as runtime:
            runtime.config.update("cpu_engine", wheel)
            runtime.config.update("compilation_cache_dir", str(tmp_path))
            client = runtime.get_backend("cpu")
            serialized[wheel] = client.serialize_executable(client.compile_and_load(ADD))
    assert compiled == [choose(wheel).path for wheel in here]
    for wheel in here:
        with make_cpu_client(cpu_engine=wheel) as client:
            for other, data in serialized.items():
                if other == wheel:
                    assert client.deserialize_executable(data).name
                    continue
                with pytest.raises(InvalidArgumentError, match="another version of the compiler"):
                    client.deserialize_executable(data)


def test_a_custom_call_belongs_to_the_client_s_engine():
    here = [library.wheel for library in _library.installed()]
    if len(here) < 2:
        pytest.skip("needs two engines")
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @of_two_engines(%a) {api_version = 4 : i32}
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    for factor, wheel in enumerate(here, 2):
        with make_cpu_client(cpu_engine=wheel) as client:
            with pytest.raises(UnimplementedError, match="register_custom_call"):
                client.compile_and_load(text)
            times = np.float32(factor)
            client.register_custom_call("of_two_engines", lambda a, times=times: a * times)
            (result,) = client.compile_and_load(text).execute(
                [client.buffer_from_pyval(np.ones(4, np.float32))]
            )
            assert np.asarray(result).tolist() == [factor] * 4


def test_the_newest_that_is_installed_is_taken(wheels):
    wheels(xla_cpu_pjrt="0.0.1", fastatomstruct_xla_cpu="2099.1")
    assert str(choose()) == "fastatomstruct-xla-cpu 2099.1"


def test_one_with_a_quirk_against_it_is_taken_where_no_other_is(wheels, monkeypatch):
    quirk = Quirk("fastatomstruct-xla-cpu", (1,), (9999,), "is slow", "case", is_avoided=True)
    for module in (_library, xla_cpu_libraries):
        monkeypatch.setattr(module, "QUIRKS", (quirk,))
    wheels(fastatomstruct_xla_cpu="2026.6.23")
    assert choose().wheel == "fastatomstruct-xla-cpu"
    _library._default.cache_clear()
    wheels(xla_cpu_pjrt="0.0.1")
    assert choose().wheel == "xla-cpu-pjrt"


def test_the_variable_names_one_and_an_argument_overrides_it(wheels, monkeypatch):
    wheels(xla_cpu_pjrt="0.0.1", lammps_jax_pjrt_cpu="0.11.2")
    monkeypatch.setenv("DEVRT_CPU_ENGINE", "xla_cpu_pjrt")
    assert choose().wheel == "xla-cpu-pjrt"
    assert choose("lammps-jax-pjrt-cpu").wheel == "lammps-jax-pjrt-cpu"
    monkeypatch.setenv("DEVRT_CPU_ENGINE", "lammps-jax-pjrt-cpu")
    assert choose().wheel == "lammps-jax-pjrt-cpu"
    monkeypatch.setenv("DEVRT_CPU_ENGINE", "")
    assert choose().wheel == "xla-cpu-pjrt"


def test_a_path_of_an_installed_wheel_is_that_wheel(cpu_library):
    assert choose(cpu_library.path) == cpu_library


def test_what_is_not_installed_says_what_to_type(wheels):
    wheels()
    with pytest.raises(UnimplementedError, match=r'pip install "\./packages/devrt-cpu\[xla\]"'):
        choose()
    with pytest.raises(InvalidArgumentError, match="pip install xla-cpu-pjrt") as caught:
        choose("xla-cpu-pjrt")
    assert (caught.value.option, caught.value.value) == ("cpu_engine", "xla-cpu-pjrt")
    with pytest.raises(InvalidArgumentError, match="--no-deps lammps-jax-pjrt-cpu"):
        choose("lammps_jax_pjrt_cpu")
    with pytest.raises(InvalidArgumentError, match=r"Name one of .*xla-cpu-pjrt, or a path"):
        choose("xla")
    with make_cpu_client() as client:
        assert client.platform_version.endswith(", no compiler")
        with pytest.raises(UnimplementedError, match="is not installed"):
            client.compile_and_load(ADD)


def test_a_wheel_without_its_library_says_how_to_fix_it(wheels, tmp_path):
    wheels(xla_cpu_pjrt="0.0.1")
    (tmp_path / engine_named("xla-cpu-pjrt").library).unlink()
    with pytest.raises(UnimplementedError, match="--force-reinstall --no-deps xla-cpu-pjrt"):
        choose()


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        ("no/such/file.so", InvalidArgumentError, "there is no such file"),
        ("", InvalidArgumentError, "devrt knows no engine of that name"),
        (3, InvalidTypeError, "cpu_engine must be of type str"),
    ],
)
def test_a_client_is_refused_an_engine_that_is_not_there(named, error, message):
    with pytest.raises(error, match=message):
        make_cpu_client(cpu_engine=named)


def test_the_option_is_refused_with_its_value():
    with Runtime() as runtime:
        runtime.config.update("cpu_engine", "nonsense")
        with pytest.raises(InvalidArgumentError, match="cpu_engine 'nonsense' cannot be used"):
            runtime.get_backend("cpu")


def test_reports_say_which(cpu_library):
    words = f"compiles with {cpu_library}"
    assert words in str(devrt.explain("cpu"))
    for command in ("list", "doctor"):
        done = subprocess.run(
            [sys.executable, "-m", "devrt", command], capture_output=True, text=True, check=False
        )
        assert words in done.stdout, done.stderr


def test_reports_say_what_is_missing(wheels):
    wheels()
    assert "compiles nothing: " in str(devrt.explain("cpu"))


def test_an_option_that_an_engine_lacks_is_refused_by_name_only_if_it_is_the_user_s():
    installed("lammps-jax-pjrt-cpu")
    with make_cpu_client(cpu_engine="lammps-jax-pjrt-cpu") as client:
        assert outcome(client)[3] == 6
        flag = "xla_cpu_use_fusion_emitters"
        with pytest.raises(InvalidArgumentError, match=f"0.11.2 has no option '{flag}'"):
            client.compile_and_load(ADD, env_option_overrides={flag: True})


LIBRARY = """
#include <stdlib.h>
#include "devrt/pjrt/c_api/pjrt_c_api.h"
static PJRT_Error* initialize(PJRT_Plugin_Initialize_Args* args) { abort(); }
static PJRT_Extension_Base extension = {sizeof(PJRT_Extension_Base), TYPE, 0};
static PJRT_Api table;
const PJRT_Api* GetPjrtApi(void) {
  table.struct_size = sizeof table;
  table.extension_start = &extension;
  table.pjrt_api_version.major_version = 0;
  table.pjrt_api_version.minor_version = MINOR;
  table.PJRT_Plugin_Initialize = initialize;
  return &table;
}
"""


@pytest.fixture
def library(tmp_path):
    """Return what builds a plugin that ends the process where it is initialised."""
    import devrt.native

    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")

    def build(minor, extension):
        source, made = tmp_path / "library.c", tmp_path / "library.so"
        source.write_text(LIBRARY.replace("MINOR", str(minor)).replace("TYPE", str(extension)))
        include = f"-I{devrt.native.include_dir()}"
        subprocess.run(
            [compiler, "-shared", "-fPIC", include, str(source), "-o", str(made)], check=True
        )
        return made

    return build


@pytest.mark.parametrize(
    ("minor", "extension", "message"),
    [(53, 4, r"has version 0\.53 of the PJRT C API"), (114, 16, "a plugin for GPUs or TPUs")],
)
def test_a_library_that_cannot_be_an_engine_is_refused_before_it_is_used(
    library, minor, extension, message
):
    path = library(minor, extension)
    with make_cpu_client(cpu_engine=path) as client:
        assert client.platform_version.endswith(f", {path}")
        for _ in range(2):
            with pytest.raises(InvalidArgumentError, match=f"cpu_engine .*{message}") as caught:
                client.compile_and_load(ADD)
            assert caught.value.option == "cpu_engine"


def test_what_is_no_library_is_refused(tmp_path):
    (tmp_path / "text.so").write_text("no library")
    client = make_cpu_client(cpu_engine=tmp_path / "text.so")
    with client, pytest.raises(InvalidArgumentError, match="cannot be opened"):
        client.compile_and_load(ADD)


@pytest.mark.parametrize(
    ("wheel", "file"), [("libtpu", "libtpu.so"), ("jax-cuda13-pjrt", "xla_cuda_plugin.so")]
)
def test_libraries_for_other_devices_are_refused(wheel, file):
    try:
        files = metadata.distribution(wheel).files or ()
    except metadata.PackageNotFoundError:
        pytest.skip(f"{wheel} is not installed")
    (path,) = (os.fspath(each.locate()) for each in files if each.name == file)
    code = (
        "import sys, devrt_cpu\n"
        "client = devrt_cpu.make_cpu_client(cpu_engine=sys.argv[1])\n"
        "try: client.compile_and_load('func.func @main() { return }')\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True, timeout=120
    )
    assert "it is a plugin for GPUs or TPUs" in done.stdout


def test_a_library_is_known_by_its_content(cpu_library, tmp_path):
    if cpu_library.engine is None or cpu_library.version != ".".join(
        map(str, cpu_library.engine.version)
    ):
        pytest.skip("devrt knows no library of this version")
    copied = tmp_path / "copied.so"
    copied.symlink_to(cpu_library.path)
    assert Library(str(copied)).quirks == cpu_library.quirks
    assert Library(str(copied)).engine == cpu_library.engine
