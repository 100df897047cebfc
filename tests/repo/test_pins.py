"""devrt's distributions require each other as the policy for backend authors says."""

import re
import tomllib

import pytest

PIN = re.compile(r"(devrt-[a-z]+)(?:\[[\w,]+\])?>=(\d+)\.(\d+),<(\d+)")
BUILD_PIN = re.compile(r"devrt-core>=(\d+)\.(\d+),<(\d+)\.(\d+)")  # for the native SDK
OURS = re.compile(r"devrt-[a-z]")


def requirements(project):
    """Yield every requirement of a project's metadata, extras' too."""
    yield from project.get("dependencies", ())
    for extra in project.get("optional-dependencies", {}).values():
        yield from extra


def pin_findings(project, versions):
    """Return the requirements on devrt's distributions that are no pins as the policy has them."""
    found = []
    # What the dependencies pin an extra may name again, for an extra of that one.
    pinned = {m.group(1) for r in project.get("dependencies", ()) if (m := PIN.fullmatch(r))}
    for requirement in requirements(project):
        name, bracket, _ = requirement.partition("[")
        is_pinned = requirement.endswith("]") and bracket and name in pinned | {project["name"]}
        if not OURS.match(requirement) or is_pinned:
            continue
        pin = PIN.fullmatch(requirement)
        if pin is None:
            found.append(f"{project['name']}: {requirement!r} is not like 'devrt-core>=0.1,<1'")
            continue
        name, major, minor, below = pin.group(1), *map(int, pin.groups()[1:])
        if below != major + 1:
            found.append(f"{project['name']}: {requirement!r} is to end below {major + 1}")
        if (major, minor) > versions.get(name, (major, minor)):
            found.append(f"{project['name']}: {requirement!r} begins after the version here")
    return found


def build_findings(requirements):
    """Return the requirements of a build on devrt that name more than one minor version."""
    found = []
    for requirement in filter(OURS.match, requirements):
        pin = BUILD_PIN.fullmatch(requirement)
        major, minor, *below = map(int, pin.groups()) if pin else (0, 0)
        if below != [major, minor + 1]:
            found.append(f"build-system: {requirement!r} is not like 'devrt-core>=0.1,<0.2'")
    return found


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_pins_are_those_of_the_policy(checkout):
    paths = sorted(checkout.root.glob("packages/*/pyproject.toml"))
    paths += sorted(checkout.root.glob("examples/*/pyproject.toml"))
    documents = [read(path) for path in paths]
    projects = [document["project"] for document in documents]
    assert len(projects) >= 6
    versions = {p["name"]: tuple(map(int, p["version"].split(".")[:2])) for p in projects}
    found = [finding for project in projects for finding in pin_findings(project, versions)]
    for document in documents:
        found += build_findings(document["build-system"]["requires"])
    assert not found, "\n".join(found) + "\nsee docs/backend-authors/policy.md"


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ("devrt-core", "is not like"),
        ("devrt-core==0.1.0", "is not like"),
        ("devrt-core[testing]", "is not like"),
        ("devrt-core>=0.1,<0.2", "is not like"),
        ("devrt-core[pjrt]>=0.1,<2", "is to end below 1"),
        ("devrt-core>=0.7,<1", "begins after the version here"),
    ],
)
def test_the_rule_would_notice(requirement, words):
    project = {"name": "devrt-x", "optional-dependencies": {"all": [requirement]}}
    (finding,) = pin_findings(project, {"devrt-core": (0, 1)})
    assert words in finding


def test_the_rule_leaves_others_alone():
    project = {"name": "devrt-x", "dependencies": ["numpy>=2.0", "devrt-core>=0.1,<1"]}
    project["optional-dependencies"] = {"all": ["devrt-x[one]", "devrt-core[testing]"]}
    assert pin_findings(project, {"devrt-core": (0, 1)}) == []


@pytest.mark.parametrize(
    "requirement", ["devrt-core", "devrt-core>=0.1,<1", "devrt-core>=0.1,<0.3"]
)
def test_a_build_names_one_minor_version(requirement):
    assert len(build_findings(["nanobind>=3.1,<4", requirement])) == 1
    assert build_findings(["nanobind>=3.1,<4", "devrt-core>=0.1,<0.2"]) == []
