"""Each row of the versions that XLA's plugin needs, and each conflict that is known.

The libraries are stand-ins that report the version that a variable names.
"""

import functools
import importlib

import pytest
from packaging.requirements import Requirement

from devrt.errors import BackendUnavailableError, DevrtWarning
from devrt_cuda import _known_conflicts, _versions
from support import shared_library

HEAD = """
#include <stddef.h>
#include <stdlib.h>
static int version(void) { return atoi(getenv("STAND_IN_VERSION")); }
"""
FILLS = "int {function}(int* v) {{ *v = version(); return 0; }}"
RETURNS = "size_t {function}(void) {{ return version(); }}"
PARTS = """
int {function}(int part, int* v) {{ *v = part ? version() % 100 : version() / 100; return 0; }}
"""
DEVICES = """
int cuInit(unsigned flags) { return getenv("STAND_IN_CAPABILITY") ? 0 : 100; }
int cuDeviceGetCount(int* v) { *v = 2; return 0; }
int cuDeviceGetAttribute(int* v, int name, int device) {
  const int capability = device ? atoi(getenv("STAND_IN_CAPABILITY")) : 90;
  *v = name == 75 ? capability / 10 : capability % 10;
  return 0;
}
"""

# As each library writes it: the latest that is too old, the oldest that works, and a patch of that.
RULES = {
    "driver": (12090, 13000, 13000),
    "cudart": (12090, 13000, 13000),
    "cudnn": (91199, 91200, 91201),
    "cufft": (11999, 12000, 12003),
    "cusolver": (11999, 12000, 12003),
    "cupti": (120900, 130000, 130001),
    "cublas": (1299, 1300, 1300),
    "cusparse": (1205, 1206, 1206),
}


def source(row):
    form = RETURNS if row.returns else FILLS if row.units else PARTS
    text = HEAD + form.format(function=row.function)
    return text + DEVICES if row.name == "driver" else text


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """Return a folder for each library, with that alone."""
    folder = tmp_path_factory.mktemp("stand-ins")
    for row in _versions.LIBRARIES:
        (folder / row.name).mkdir()
        shared_library(folder / row.name / row.file, source(row))
    return folder


@pytest.fixture
def report(libraries, monkeypatch):
    """Return a function that has the child read libraries with such a version."""
    monkeypatch.setattr(_versions, "_PLUGIN", "devrt-cuda")  # one that is installed
    for name in (_versions.IGNORED, "DEVRT_IGNORE_CONFLICTS"):
        monkeypatch.delenv(name, raising=False)

    def found(names, version, capability=""):
        folders = ":".join(str(libraries / name) for name in names)
        monkeypatch.setenv("LD_LIBRARY_PATH", folders)
        monkeypatch.setenv("STAND_IN_VERSION", str(version))
        if capability:
            monkeypatch.setenv("STAND_IN_CAPABILITY", capability)
        clear()
        return {each.library.name: each for each in _versions._found()}

    yield found
    clear()


def clear():
    _versions._found.cache_clear()
    _versions._capabilities.cache_clear()


def test_there_is_a_rule_for_each_library_that_the_document_of_jax_checks():
    assert {row.name for row in _versions.LIBRARIES} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_version_before_the_oldest_is_refused(report, name):
    report([name], RULES[name][0])
    with pytest.raises(BackendUnavailableError, match=rf"\(.*/{name}/lib"):
        _versions.check()
    assert f"{name}-old" in {finding.code for finding in _versions.findings()}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("which", [1, 2], ids=["oldest", "patch"])
def test_the_oldest_and_each_of_its_patches_are_taken(report, name, which):
    found = report([name], RULES[name][which])
    assert found[name].version == _versions.LIBRARIES[list(RULES).index(name)].oldest
    _versions.check()
    assert f"{name}-old" not in {finding.code for finding in _versions.findings()}


@pytest.mark.parametrize("name", RULES)
def test_each_row_can_be_passed_over(report, name, monkeypatch):
    report([name], RULES[name][0])
    monkeypatch.setenv(_versions.IGNORED, name)
    _versions.check()


def test_the_oldest_are_those_that_the_extra_requires():
    oldest = {
        required.name: tuple(map(int, bound.version.split(".")[:2]))
        for required in map(Requirement, importlib.metadata.requires("devrt-cuda"))
        if required.marker and required.marker.evaluate({"extra": "xla"})
        for bound in required.specifier
        if bound.operator == ">="
    }
    rows = {row.wheel: row.oldest for row in _versions.LIBRARIES if row.wheel}
    assert rows == {wheel: oldest.get(wheel) for wheel in rows}


# -- known conflicts ------------------------------------------------------------------------------

CASES = {  # of cuBLAS, with the driver's second device of a capability
    "the first version": (1300, "100", True),
    "the last version": (1301, "119", True),
    "a version that is fixed": (1302, "100", False),
    "an older device": (1301, "99", False),
    "a newer device": (1301, "120", False),
}


@pytest.mark.parametrize("case", CASES)
def test_cublas_that_damages_tensor_memory_is_warned_of(report, case, monkeypatch):
    version, capability, holds = CASES[case]
    report(["cublas", "driver"], version, capability)
    codes = [finding.code for finding in _versions.findings()]
    assert ("cublas-tensor-memory" in codes) == holds
    monkeypatch.setenv(_versions.IGNORED, "driver")  # the stand-in has the same version
    if not holds:
        _versions.check()
        return
    with pytest.warns(DevrtWarning, match=r"cublas 13\.[01] on a device of capability 1[01]\."):
        _versions.check()


def test_a_known_conflict_has_its_source_and_can_be_passed_over(report, monkeypatch):
    report(["cublas", "driver"], 1300, "100")
    (found,) = (f for f in _versions.findings() if f.code == "cublas-tensor-memory")
    assert (found.severity, "https://github.com/" in found.message) == ("warning", True)
    assert "nvidia-cublas>=13.2" in found.remedy
    assert found.remedy.endswith(
        "DEVRT_IGNORE_CONFLICTS=cublas-tensor-memory goes on all the same."
    )
    monkeypatch.setenv("DEVRT_IGNORE_CONFLICTS", "another, cublas-tensor-memory")
    assert "cublas-tensor-memory" not in {f.code for f in _versions.findings()}
    monkeypatch.setenv(_versions.IGNORED, "driver")
    _versions.check()


def test_an_error_among_the_known_conflicts_is_raised(report, monkeypatch):
    (known,) = _known_conflicts.KNOWN
    refused = known._replace(conflict=type(known.conflict)(**fields(known), severity="error"))
    monkeypatch.setattr(_known_conflicts, "KNOWN", (refused,))
    monkeypatch.setenv(_versions.IGNORED, "driver")
    report(["cublas", "driver"], 1300, "100")
    with pytest.raises(BackendUnavailableError, match="free tensor memory more than once"):
        _versions.check()


def fields(known):
    names = ("id", "reason", "remedy", "source")
    return {name: getattr(known.conflict, name) for name in names}


def test_devices_are_read_only_where_a_version_is_in_question(report, monkeypatch):
    @functools.cache
    def unread():
        raise AssertionError("no version is in question")

    report(["cublas", "driver"], 1302, "100")
    monkeypatch.setattr(_versions, "_capabilities", unread)
    list(_versions.findings())


def test_a_driver_that_does_not_start_has_no_devices(report):
    report(["cublas", "driver"], 1300)
    assert _versions._capabilities() == ()
