"""The wheels, built from their sdists, installed outside the checkout and used there.

What is built and what must hold is data, in matrix.toml.
"""

import email.parser
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

pytestmark = pytest.mark.wheels

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
MATRIX = tomllib.loads((HERE / "matrix.toml").read_text(encoding="utf-8"))
PACKAGES = MATRIX["packages"]
VERSIONS = {
    name: tomllib.loads((CHECKOUT / "packages" / name / "pyproject.toml").read_text())["project"][
        "version"
    ]
    for name in PACKAGES
}
WORDS = {**VERSIONS, "checkout": str(CHECKOUT)}
CHECKS = [
    pytest.param(row, check, id=f"{row['name']}-{number}-{' '.join(check['command'][:2])}")
    for row in MATRIX["environment"]
    for number, check in enumerate(row["check"])
]


def clean_environment():
    """Return the environment without what would lead back to the checkout."""
    dropped = ("PYTHON", "VIRTUAL_ENV", "DEVRT_", "COVERAGE")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


def run(command, folder, status=0):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory):
    """Every sdist and the wheel built from it: a file that an sdist lacks shows here."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    for name in PACKAGES:
        package = CHECKOUT / "packages" / name
        run([sys.executable, "-m", "build", "--outdir", folder, package], folder)
    return folder


def wheel_of(wheelhouse, name):
    (wheel,) = wheelhouse.glob(f"{name.replace('-', '_')}-{VERSIONS[name]}-*.whl")
    return wheel


@pytest.fixture(scope="session")
def environments(wheelhouse, tmp_path_factory):
    """Return a function that makes each environment of the matrix once, outside the checkout."""
    made = {}

    def environment(row):
        if row["name"] not in made:
            folder = tmp_path_factory.mktemp(row["name"])
            assert CHECKOUT not in folder.parents
            venv.create(folder / "venv", with_pip=True)
            python = folder / "venv/bin/python"
            pins = [f"{name}=={VERSIONS[name]}" for name in row["install"]]
            install = ["install", "--quiet", "--disable-pip-version-check"]
            run([python, "-m", "pip", *install, "--find-links", wheelhouse, *pins], folder)
            run([python, "-m", "pip", "check"], folder)
            made[row["name"]] = folder
        return made[row["name"]]

    return environment


def value_at(data, path):
    """Return the value at a dotted path; ``key=value`` picks the one list item that has it."""
    for step in path.split("."):
        key, found, wanted = step.partition("=")
        if found:
            (data,) = (item for item in data if item[key] == wanted)
        else:
            data = data[int(step)] if isinstance(data, list) else data[step]
    return data


@pytest.mark.parametrize(("row", "check"), CHECKS)
def test_check(environments, row, check):
    folder = environments(row)
    program, *arguments = check["command"]
    output = run([folder / "venv/bin" / program, *arguments], folder, check.get("status", 0))
    for text in check.get("holds", []):
        assert text.format_map(WORDS) in output
    for text in check.get("lacks", []):
        assert text.format_map(WORDS) not in output
    for path, value in check.get("json", {}).items():
        wanted = value.format_map(WORDS) if isinstance(value, str) else value
        assert value_at(json.loads(output), path) == wanted, path


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_is_small(wheelhouse, name):
    assert wheel_of(wheelhouse, name).stat().st_size <= PACKAGES[name]


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_can_be_released(wheelhouse, name):
    with zipfile.ZipFile(wheel_of(wheelhouse, name)) as wheel:
        names = wheel.namelist()
        (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        text = wheel.read(metadata).decode()
    parsed = Metadata.from_email(text, validate=True)
    assert (parsed.name, str(parsed.version)) == (name, VERSIONS[name])
    assert str(parsed.requires_python) == ">=3.11"
    assert parsed.license_expression == "Apache-2.0"
    assert parsed.summary
    assert any(n.endswith("licenses/LICENSE") for n in names)
    assert any(n.endswith("/py.typed") for n in names)
    description = email.parser.Parser().parsestr(text).get_payload()
    assert description.startswith(f"# {name}\n")


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_holds_its_packages_and_no_tests(wheelhouse, name):
    with zipfile.ZipFile(wheel_of(wheelhouse, name)) as wheel:
        tops = {n.split("/")[0] for n in wheel.namelist()}
    modules = {"devrt-core": {"devrt"}, "devrt-tpu": {"devrt_pjrt", "devrt_tpu"}}
    expected = modules.get(name, {name.replace("-", "_")})
    assert {top for top in tops if not top.endswith(".dist-info")} == expected


@pytest.mark.parametrize("name", PACKAGES)
def test_sdist_holds_its_tests_and_changelog(wheelhouse, name):
    base = f"{name.replace('-', '_')}-{VERSIONS[name]}"
    with tarfile.open(wheelhouse / f"{base}.tar.gz") as sdist:
        names = set(sdist.getnames())
    assert {f"{base}/{n}" for n in ("LICENSE", "README.md", "CHANGELOG.md", "tests")} <= {
        "/".join(n.split("/")[:2]) for n in names
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_a_backend_depends_on_a_range_of_the_core_and_may_on_the_loader(wheelhouse, name):
    with zipfile.ZipFile(wheel_of(wheelhouse, name)) as wheel:
        (metadata,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        parsed = Metadata.from_email(wheel.read(metadata).decode(), validate=True)
    ours = [r for r in parsed.requires_dist or () if r.name.startswith("devrt") and not r.marker]
    core = [] if name == "devrt-core" else ["devrt-core"]
    loader = ["devrt-tpu"] if name == "devrt-cuda" else []  # until it has a client of its own
    assert [r.name for r in ours] == core + loader
    assert all({s.operator for s in r.specifier} == {">=", "<"} for r in ours)
