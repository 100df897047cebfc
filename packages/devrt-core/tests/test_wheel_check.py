"""`python -m devrt.native --check-wheel`: a wheel without faults, and each fault in turn."""

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from devrt.native import ABI_VERSION
from devrt.native.elf import read_library
from devrt.native.wheel_check import check_wheel

NAME = "acme_backend-1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
INFO = "acme_backend-1.0.dist-info"
MODULE = "acme_backend/_ext.abi3.so"
POINTS = f"{INFO}/entry_points.txt"
METADATA = f"{INFO}/METADATA"
MANIFEST = "acme_backend/devrt.toml"
GOOD = {
    "acme_backend/__init__.py": "",
    "acme_backend/plugin.py": "",
    MANIFEST: 'schema = 1\n[[backend]]\nplatform = "acme"\napi_version = "1.0"\n',
    POINTS: "[devrt_plugins]\nacme = acme_backend.plugin\n",
    METADATA: "Name: acme-backend\nVersion: 1.0\nRequires-Dist: devrt-core<0.2,>=0.1\n"
    "Requires-Dist: nanobind-backend>=1.0\nRequires-Dist: scipy; extra == 'linalg'\n",
}
DOMAIN = b"devrt_cpu works in one interpreter of a process only, and another"
OWN_DOMAIN = b"acme_backend works in one interpreter of a process only, and anot"
SIMULATOR = "acme_backend/libdevrt_acme_simulator.so"
GPU = {"acme_backend/_platform.py": 'P = GpuPlatform(name="acme", module="acme_backend._ext")\n'}
NEEDS = """[[backend.requires]]
unless_set = ["DEVRT_ACME_MOCK"]
path = ["/dev/acme0"]
reason = "no card"
remedy = "Buy one."
"""
RECORDED = f"devrt_native_abi_{ABI_VERSION}".encode()


@pytest.fixture(scope="session")
def module():
    """A module of `devrt_add_backend_module`: the one of the CPU's backend."""
    pytest.importorskip("devrt_cpu", reason="the CPU's backend, a native one, is not installed")
    spec = importlib.util.find_spec("devrt_cpu._ext")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).read_bytes()
    for folder in read_library(data).search_path.split(":"):
        if folder and not folder.startswith("$ORIGIN"):  # an editable build's own
            data = data.replace(folder.encode(), b"$ORIGIN".ljust(len(folder), b"/"))
    assert DOMAIN in data
    return data.replace(DOMAIN, OWN_DOMAIN)


@pytest.fixture
def faults(tmp_path, module):
    """Return a function that packs a wheel, and what is wrong with it."""

    def check(*, name=NAME, without=(), edit=None, **changes):
        files = {MODULE: module, **GOOD, **(edit or {}), **changes}
        path = tmp_path / name
        with zipfile.ZipFile(path, "w") as archive:
            for each, content in files.items():
                if each not in without:
                    archive.writestr(each, content)
        return [str(fault) for fault in check_wheel(path)]

    return check


def test_a_wheel_without_faults_has_none(faults):
    assert faults() == []


def test_a_wheel_in_python_alone_has_none_either(faults):
    needed = GOOD[METADATA].replace("Requires-Dist: nanobind-backend>=1.0\n", "")
    name = "acme_backend-1.0-py3-none-any.whl"
    assert faults(name=name, without=[MODULE], edit={METADATA: needed}) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (NAME.replace("abi3", "cp311"), "error: .* is for cp311 and cp311 alone. Set wheel.py-api"),
        (NAME.replace("cp311", "cp312"), "warning: .* is for cp312 and later"),
        (NAME.replace("manylinux_2_28_x86_64", "any"), "error: .* claims to be for any machine"),
        (NAME.replace("manylinux_2_28", "linux"), "warning: .* tagged linux_x86_64, which PyPI"),
        ("acme.whl", "error: acme.whl is not named as a wheel"),
    ],
)
def test_its_name_is_read(faults, name, words):
    (found,) = faults(name=name)
    assert re.search(words, found)


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        (METADATA, "devrt-core", "numpy", "error: it does not require devrt-core"),
        (METADATA, "<0.2,>=0.1", "", "warning: it requires 'devrt-core', which has no lower or"),
        (METADATA, "nanobind-", "", "error: its native module needs nanobind-backend, which"),
        (
            f"{INFO}/entry_points.txt",
            "devrt_plugins",
            "jax_plugins",
            "error: it has no entry point",
        ),
        (
            f"{INFO}/entry_points.txt",
            ".plugin",
            ".other",
            "the module acme_backend.other, which it",
        ),
        (MANIFEST, '"acme"', '"acne"', "error: acme_backend/devrt.toml has a backend of platform"),
        (MANIFEST, "api_version", "api", "error: the manifest acme_backend/devrt.toml"),
        (MANIFEST, "schema = 1", "schema = [", "it is no TOML"),
        (
            MANIFEST,
            '"1.0"',
            '"9.0"',
            "error: plugin acme-backend was built against plugin contract 9.0",
        ),
    ],
)
def test_what_it_says_of_itself_is_read(faults, path, old, new, words):
    found = faults(edit={path: GOOD[path].replace(old, new)})
    assert any(words in fault for fault in found), found


def test_a_wheel_without_a_manifest_gets_a_warning(faults):
    assert faults(without=[MANIFEST])[0].startswith("warning: it has no manifest")


def gpu(needs=NEEDS):
    return GPU | {MANIFEST: GOOD[MANIFEST] + needs}


def test_a_gpu_backend_has_its_simulator(faults, module):
    library = module.replace(b"PyInit_", b"PyNone_")
    assert faults(edit=gpu() | {SIMULATOR: library}) == []
    (none,) = faults(edit=gpu())
    assert "error: acme_backend/devrt.toml names DEVRT_ACME_MOCK, and the wheel has no lib" in none
    (misnamed,) = faults(edit=gpu() | {"acme_backend/libacme_simulator.so": library})
    assert "no libdevrt_acme_simulator.so, but libacme_simulator.so" in misnamed
    (unnamed,) = faults(edit=gpu(NEEDS.replace("DEVRT_ACME_", "ACME_")) | {SIMULATOR: library})
    assert "requires what simulated devices do not need" in unnamed


def test_a_native_module_that_is_named_and_not_there_is_an_error(faults):
    found = faults(edit=GPU, without=[MODULE])
    assert any("_platform.py names the native module acme_backend._ext, which" in f for f in found)


def test_files_of_the_core_are_an_error(faults):
    (found,) = faults(edit={"devrt/acme.py": ""})
    assert found.startswith("error: it has files in the package devrt")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"acme_backend works in", b"acme_forgery works in", "has the NB_DOMAIN acme_forgery"),
        (RECORDED, b"devrt_native_abi_9", "was built with version 9 of the native ABI"),
        (RECORDED, b"devrt_native_abo_1", "does not record the native ABI"),
        (b"nanobind_backend\0", b"__nb_internals_\0\0", "has nanobind linked into it"),
        (b"libstdc++.so.6", b"libcudart.so.1", "needs libcudart.so.1, without which"),
        (b"libstdc++.so.6", b"libpython.so.3", "needs libpython.so.3, which most Pythons"),
        (b"$ORIGIN", b"/opt/am", "looks for libraries in /opt/am"),
        (b"\x7fELF", b"\x7fELV", "cannot be loaded: it is no shared library"),
    ],
)
def test_its_module_is_read(faults, module, old, new, words):
    assert old in module
    found = faults(edit={MODULE: module.replace(old, new)})
    assert any(words in fault for fault in found), found
    assert found[0].startswith("error: ")


def test_a_damaged_module_is_an_error(faults, module):
    for end in (64, len(module) // 2, len(module) - 70):
        assert "cannot be loaded" in faults(edit={MODULE: module[:end] + b"PyInit_"})[0]


def test_a_module_for_one_python_is_an_error(faults, module):
    name = "acme_backend/_ext.cpython-311-x86_64-linux-gnu.so"
    (found,) = faults(without=[MODULE], edit={name: module})
    assert "is not built for the stable ABI" in found


def test_a_backend_module_of_nanobind_is_an_error(faults, module):
    found = faults(edit={"nanobind_backend/_nb.abi3.so": module})
    assert any("ships nanobind's backend itself" in fault for fault in found)


def run(path):
    command = [sys.executable, "-m", "devrt.native", "--check-wheel", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_says_it_and_ends_with_one(tmp_path):
    path = tmp_path / NAME
    path.write_text("no archive")
    done = run(path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"error: {path} cannot be read")


def test_the_command_is_content_with_a_good_wheel(faults, tmp_path):
    assert faults() == []
    done = run(tmp_path / NAME)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no faults found\n", "")
