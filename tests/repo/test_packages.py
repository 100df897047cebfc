"""Every package can be released alone: it has its licence, readme, changelog and version."""

import re
import tomllib

import pytest

CHANGELOG_ENTRY = re.compile(r"^## (\d+\.\d+\.\d+)(?: \((?:unreleased|\d{4}-\d\d-\d\d)\))?$", re.M)


def package_findings(package):
    """Return what a package's folder lacks for a release."""
    found = [
        f"{package.name}/{name}:1: is missing or empty"
        for name in ("LICENSE", "README.md", "CHANGELOG.md")
        if not (package / name).is_file() or not (package / name).read_text().strip()
    ]
    if found:
        return found
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    if project["name"] != package.name:
        found.append(f"{package.name}/pyproject.toml:1: names the package {project['name']!r}")
    if project.get("readme") != "README.md" or project.get("license-files") != ["LICENSE"]:
        found.append(f"{package.name}/pyproject.toml:1: does not ship its README.md and LICENSE")
    entry = CHANGELOG_ENTRY.search((package / "CHANGELOG.md").read_text())
    latest = entry.group(1) if entry else None
    if latest != project["version"]:
        found.append(
            f"{package.name}/CHANGELOG.md:1: its top entry is {latest}, "
            f"the version is {project['version']}"
        )
    return found


def test_every_package_can_be_released(checkout):
    names = {package.name for package in checkout.packages}
    assert names >= {"devrt-core", "devrt-cpu", "devrt-cuda", "devrt-rocm", "devrt-tpu"}
    found = [finding for package in checkout.packages for finding in package_findings(package)]
    assert not found, "\n".join(found)


def test_every_package_has_the_same_licence(checkout):
    texts = {(package / "LICENSE").read_text() for package in checkout.packages}
    assert texts == {(checkout.root / "LICENSE").read_text()}


def test_every_package_ships_its_types(checkout):
    found = [
        made.parent for package in checkout.packages for made in package.glob("src/*/__init__.py")
    ]
    assert len(found) >= len(checkout.packages)
    assert [folder.name for folder in found if not (folder / "py.typed").is_file()] == []


@pytest.fixture
def package(tmp_path):
    """A package without a fault."""
    folder = tmp_path / "devrt-acme"
    folder.mkdir()
    (folder / "LICENSE").write_text("Apache")
    (folder / "README.md").write_text("# devrt-acme")
    (folder / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (unreleased)\n\n## 1.2.2\n")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "devrt-acme"\nversion = "1.2.3"\nreadme = "README.md"\n'
        'license-files = ["LICENSE"]\n'
    )
    return folder


def test_a_package_without_a_fault_passes(package):
    assert package_findings(package) == []


@pytest.mark.parametrize("name", ["LICENSE", "README.md", "CHANGELOG.md"])
def test_a_missing_file_is_reported(package, name):
    (package / name).unlink()
    assert package_findings(package) == [f"devrt-acme/{name}:1: is missing or empty"]


@pytest.mark.parametrize(
    ("name", "old", "new", "finding"),
    [
        ("CHANGELOG.md", "1.2.3", "1.2.4", "its top entry is 1.2.4, the version is 1.2.3"),
        ("CHANGELOG.md", "## ", "Version ", "its top entry is None, the version is 1.2.3"),
        ("pyproject.toml", "devrt-acme", "acme", "names the package 'acme'"),
        ("pyproject.toml", '["LICENSE"]', "[]", "does not ship its README.md and LICENSE"),
    ],
)
def test_a_wrong_line_is_reported(package, name, old, new, finding):
    file = package / name
    file.write_text(file.read_text().replace(old, new))
    (found,) = package_findings(package)
    assert found == f"devrt-acme/{name}:1: {finding}"
