"""The wheels, built from their sdists: their size, metadata and content.

What is built, and how large it may be, is data, in matrix.toml; test_matrix.py installs them.
"""

import email.parser
import tarfile
import zipfile

import pytest
from packaging.metadata import Metadata

from wheelhouse import PACKAGES, VERSIONS

pytestmark = pytest.mark.wheels


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_is_small(wheelhouse, name):
    assert wheelhouse.wheel(name).stat().st_size <= PACKAGES[name]


@pytest.mark.parametrize("name", PACKAGES)
def test_wheel_can_be_released(wheelhouse, name):
    with zipfile.ZipFile(wheelhouse.wheel(name)) as wheel:
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
    with zipfile.ZipFile(wheelhouse.wheel(name)) as wheel:
        tops = {n.split("/")[0] for n in wheel.namelist()}
    modules = {"devrt-core": {"devrt"}, "devrt-tpu": {"devrt_pjrt", "devrt_tpu"}}
    expected = modules.get(name, {name.replace("-", "_")})
    assert {top for top in tops if not top.endswith(".dist-info")} == expected


@pytest.mark.parametrize("name", PACKAGES)
def test_sdist_holds_its_tests_and_changelog(wheelhouse, name):
    base = f"{name.replace('-', '_')}-{VERSIONS[name]}"
    with tarfile.open(wheelhouse.sdist(name)) as sdist:
        names = set(sdist.getnames())
    assert {f"{base}/{n}" for n in ("LICENSE", "README.md", "CHANGELOG.md", "tests")} <= {
        "/".join(n.split("/")[:2]) for n in names
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_a_backend_depends_on_a_range_of_the_core_alone(wheelhouse, name):
    with zipfile.ZipFile(wheelhouse.wheel(name)) as wheel:
        (metadata,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        parsed = Metadata.from_email(wheel.read(metadata).decode(), validate=True)
    ours = [r for r in parsed.requires_dist or () if r.name.startswith("devrt") and not r.marker]
    core = [] if name == "devrt-core" else ["devrt-core"]
    assert [r.name for r in ours] == core
    assert all({s.operator for s in r.specifier} == {">=", "<"} for r in ours)
