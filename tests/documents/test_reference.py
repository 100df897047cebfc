"""The reference has every public module, and each object once, under the name that users type."""

import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import devrt

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = re.findall(
    r"^\.\. automodule:: (\S+)",
    "\n".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/reference/*.md")),
    re.M,
)
ELSEWHERE = {
    "devrt.cli": "docs/reference/cli.md",
    "devrt.examples": "docs/users/cli.md, as the command that runs it",
    "devrt.experimental": "other names of what is described",
    "devrt.native": "the SDK's DESIGN.md",
    "devrt.plugins": "internal to the core",
    "devrt.probing": "internal to the core",
    "devrt.tracing": "internal to the core",
    "devrt.wire": "internal to the core",
}


@pytest.fixture(scope="module")
def conf():
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


def test_every_public_module_is_described():
    public = {
        f"devrt.{module.name}"
        for module in pkgutil.iter_modules(devrt.__path__)
        if not module.name.startswith("_")
    }
    others = {"devrt", "devrt.compiling.cache", "devrt_pjrt"}
    others |= {"devrt.distributed.collectives", "devrt.experimental.multihost_utils"}
    others |= {"devrt.experimental.transfer"}
    others |= {"devrt.contract.conflicts", "devrt.contract.installation"}
    others |= {"devrt.numpy.fft", "devrt.numpy.linalg", "devrt.testing.conformance"}
    assert public - ELSEWHERE.keys() == {*DESCRIBED} - others


def test_no_page_names_a_private_module():
    pages = ROOT.glob("docs/reference/*.md")
    private = [p.name for p in pages if re.search(r"\bdevrt\w*\._\w", p.read_text("utf-8"))]
    assert private == []


def test_the_rule_for_duplicates_knows_every_described_module(conf):
    assert sorted(conf["MODULES"]) == sorted(DESCRIBED)


def test_what_users_type_is_described_under_that_name(conf):
    homes = conf["HOMES"]
    for name in ("Array", "Mesh", "NamedSharding", "device_put", "heap_profile", "explain"):
        assert homes[id(getattr(devrt, name))] == "devrt"
    for home, name in [
        ("devrt.programs", "load_program"),
        ("devrt.runtime", "make_pjrt_topology"),
        ("devrt.runtime", "Setting"),
        ("devrt.hookspecs", "devrt_client_factories"),
        ("devrt_pjrt", "make_client"),
        ("devrt.layout", "Layout"),
        ("devrt.xla_client", "make_cpu_client"),
    ]:
        assert homes[id(getattr(importlib.import_module(home), name))] == home


def test_ci_builds_the_documentation():
    assert re.search(r"^step docs make docs$", (ROOT / ".ci/run").read_text(), re.M)
