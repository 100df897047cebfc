"""A vendor's native backend, built from devrt-core's wheel and tested outside the checkout."""

import shutil

import pytest

from wheelhouse import PROJECTS

pytestmark = pytest.mark.wheels

NAME = "devrt-acme-native"
LEVELS = ("load", "memory", "transfer")


@pytest.fixture(scope="module")
def installed(environments):
    """Return the environment that has the example's wheel, and what tests it."""
    return environments({"name": NAME, "install": [NAME, "devrt-core[testing]"]})


def test_its_wheel_has_no_errors(installed, wheelhouse):
    wheel = wheelhouse.wheel(NAME)
    assert "-cp311-abi3-" in wheel.name
    printed = installed.run(["python", "-m", "devrt.native", "--check-wheel", wheel])
    faults = [line for line in printed.splitlines() if line != "no faults found"]
    assert all("which PyPI refuses" in fault for fault in faults), printed  # no manylinux image


def test_its_own_tests_pass(installed):
    project = installed.folder / "project"
    left = shutil.ignore_patterns("build", "__pycache__")
    shutil.copytree(PROJECTS[NAME], project, ignore=left)
    printed = installed.run(["python", "-m", "pytest", "-q", project / "tests"])
    assert " passed" in printed
    assert "skipped" not in printed


@pytest.mark.parametrize("level", LEVELS)
def test_it_keeps_the_contract(installed, level):
    report = installed.folder / f"{level}.json"
    installed.run(["devrt", "conform", "acme_native", "--level", level, "--report", report])
    assert report.is_file()
