"""`devrt new-backend`: what it writes, and the names and folders that it refuses.

That what it writes is built, installed and held to the contract is in tests/integration.
"""

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from devrt.cli import main
from devrt.cli.new_backend import _PLATFORM
from devrt.testing import import_findings

EXAMPLES = Path(__file__).parents[4] / "examples"
TEMPLATES = {
    "devrt-acme": (),
    "devrt-acme-native": ("--native",),
    "devrt-acme-pjrt": ("--pjrt",),
}


def write(*arguments, fails=False):
    done = CliRunner().invoke(main, ["new-backend", *map(str, arguments)])
    assert (done.exit_code == 1) == fails, done.output
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit)
    return done.output


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def committed(example):
    """Return the files of an example that are, or would be, under version control."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=EXAMPLES / example, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the files of an example are known in a checkout only")
    return {
        name for name in done.stdout.decode().split("\0") if (EXAMPLES / example / name).is_file()
    }


def test_the_examples_have_names_that_it_takes():
    for example in TEMPLATES:
        project = tomllib.loads((EXAMPLES / example / "pyproject.toml").read_text())["project"]
        (platform,) = project["entry-points"]["devrt_plugins"]
        assert _PLATFORM.fullmatch(platform), example


@pytest.mark.parametrize(("example", "options"), TEMPLATES.items())
def test_it_writes_each_file_of_the_example_under_the_new_name(folder, example, options):
    write("zeta_x1", *options)
    made = folder / "devrt-zeta-x1"
    written = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()}
    assert len(written) == len(committed(example))
    assert {".github/workflows/ci.yml", "src/devrt_zeta_x1/plugin.py"} <= written
    assert not any("acme" in path.read_text().lower() for path in made.rglob("*") if path.is_file())
    assert not any("acme" in name.lower() for name in written)


@pytest.mark.parametrize(("example", "options"), TEMPLATES.items())
def test_the_project_is_one_of_that_name(folder, example, options):
    listed = write("zeta_x1", *options).splitlines()
    made = folder / "devrt-zeta-x1"
    assert sorted(listed) == sorted(
        str(p.relative_to(folder)) for p in made.rglob("*") if p.is_file()
    )
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["name"] == "devrt-zeta-x1"
    assert project["entry-points"]["devrt_plugins"] == {"zeta_x1": "devrt_zeta_x1.plugin"}
    for path in made.rglob("*.py"):
        ast.parse(path.read_text())
    assert import_findings(made) == []


def test_classes_and_variables_have_the_name_in_their_spelling(folder):
    write("zeta_x1")
    text = (folder / "devrt-zeta-x1/src/devrt_zeta_x1/client.py").read_text()
    assert "class ZetaX1Client(Client):" in text
    write("zeta_x1", "--pjrt", "--output", "around")
    tests = (folder / "around/tests/test_zeta_x1.py").read_text()
    assert "DEVRT_NUM_ZETA_X1_DEVICES" in tests


def test_a_native_driver_is_built_under_the_new_name_and_is_short(folder):
    write("zeta_x1", "--native")
    made = folder / "devrt-zeta-x1"
    module = "NB_DOMAIN devrt_zeta_x1 CLASS_PREFIX ZetaX1 DRIVER native/driver.hpp"
    assert module in (made / "CMakeLists.txt").read_text()
    assert (
        'register("devrt_zeta_x1._ext", "ZetaX1")'
        in (made / "src/devrt_zeta_x1/plugin.py").read_text()
    )
    driver = (made / "native/driver.hpp").read_text()
    assert '.name = "zeta_x1"' in driver
    assert len(driver.splitlines()) <= 150


def test_it_goes_to_the_folder_that_is_given(folder):
    write("zeta", "--output", "here")
    assert (folder / "here/pyproject.toml").is_file()
    assert [p.name for p in folder.iterdir()] == ["here"]


@pytest.mark.parametrize(
    "name", ["", "Zeta", "1zeta", "zeta-x", "zeta_", "ze__ta", "../zeta", "zéta", 65 * "z"]
)
def test_a_bad_name_is_refused(folder, name):
    error = write("--", name, fails=True)
    assert f"{name!r} is no name of a platform. Give lower-case" in error
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("cpu", "devrt-cpu"),
        ("acme", "devrt-acme 0.1.0 serves that platform here"),
        ("gpu", "serves that platform"),
        ("core", "the distribution devrt-core is installed"),
        ("pjrt", "the package devrt_pjrt is installed"),
        ("numpy", "the package numpy is installed"),
        ("json", "a module of Python's standard library"),
        ("devrt", "it means something else"),
        ("all", "it means something else"),
    ],
)
def test_a_name_that_is_taken_is_refused(folder, name, owner):
    error = write(name, fails=True)
    assert f"the name '{name}' is taken: " in error
    assert owner in error
    assert list(folder.iterdir()) == []


def test_two_kinds_of_a_project_are_refused(folder):
    done = CliRunner().invoke(main, ["new-backend", "zeta", "--pjrt", "--native"])
    assert (done.exit_code, "give either --native or --pjrt." in done.output) == (2, True)
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(folder):
    (folder / "devrt-zeta").mkdir()
    (folder / "devrt-zeta/mine.txt").write_text("mine")
    error = write("zeta", fails=True)
    assert "devrt-zeta is there already. Remove it, or give another folder with --output." in error
    assert [p.name for p in folder.rglob("*")] == ["devrt-zeta", "mine.txt"]


def test_a_folder_that_cannot_be_made_is_one_error(folder):
    error = write("zeta", "--output", "not/there", fails=True)
    assert "the project not/there cannot be written: No such file or directory." in error
    assert list(folder.iterdir()) == []
