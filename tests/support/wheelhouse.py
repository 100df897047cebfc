"""The wheels, built once, and environments outside the checkout in which they are installed."""

import functools
import itertools
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CHECKOUT = Path(__file__).resolve().parents[2]
MATRIX = tomllib.loads((CHECKOUT / "tests/integration/matrix.toml").read_text(encoding="utf-8"))
PACKAGES = MATRIX["packages"]
PROJECTS = {
    path.parent.name: path.parent
    for folder in ("packages", "examples")
    for path in sorted((CHECKOUT / folder).glob("*/pyproject.toml"))
}
"""What is built: our distributions, and the examples of a vendor's."""

METADATA = {
    name: tomllib.loads((path / "pyproject.toml").read_text())["project"]
    for name, path in PROJECTS.items()
}
VERSIONS = {name: metadata["version"] for name, metadata in METADATA.items()}
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
READ_ONLY = 'mount --bind -o ro "$HOME" "$HOME" && exec "$@"'
UNSHARED = {
    "network": ("unshare", "--map-root-user", "--net"),
    "home": ("unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh"),
}
"""What a command may go without: a network, a home that can be written to."""


def clean_environment(**more):
    """Return the environment without what would lead back to the checkout."""
    dropped = ("PYTHON", "VIRTUAL_ENV", "DEVRT_", "COVERAGE", "XDG_", "PJRT_", "PYTEST")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return {**kept, **{key: str(value) for key, value in more.items()}}


def run(command, folder, status=0, **environ):
    """Run a command to its end, which must have a status; return what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=clean_environment(**environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


class Wheelhouse:
    """A folder of sdists, and of the wheels built from them: what an sdist lacks shows here."""

    def __init__(self, folder):
        self.folder = folder

    def wheel(self, name):
        """Return the wheel of one of `PROJECTS`; it is built at the first call."""
        pattern = f"{name.replace('-', '_')}-{VERSIONS[name]}-*.whl"
        if not list(self.folder.glob(pattern)):
            self.build(PROJECTS[name])
        (found,) = self.folder.glob(pattern)
        return found

    def sdist(self, name):
        """Return the sdist of one of `PROJECTS`."""
        self.wheel(name)
        return self.folder / f"{name.replace('-', '_')}-{VERSIONS[name]}.tar.gz"

    def build(self, project):
        """Build the sdist of a project, and from it the wheel."""
        if project != PROJECTS["devrt-core"]:
            self.wheel("devrt-core")  # which native ones are built with
        command = [sys.executable, "-m", "build", "--outdir", self.folder, project]
        run(command, self.folder, PIP_FIND_LINKS=self.find_links())

    def find_links(self):
        """Return the folders in which pip looks, beside those that the machine names."""
        return f"{self.folder} {os.environ.get('PIP_FIND_LINKS', '')}"

    def pinned(self, requirement):
        """Return a requirement as pip takes it; of ours, what was built here."""
        self.build_for(requirement)
        name = Requirement(requirement).name
        return f"{requirement}=={VERSIONS[name]}" if name in PROJECTS else requirement

    def build_for(self, requirement):
        """Build the wheels of ours that a requirement asks for, with those that it leads to."""
        wanted = Requirement(requirement)
        if wanted.name in PROJECTS:
            self.wheel(wanted.name)
            metadata = METADATA[wanted.name]
            extras = metadata.get("optional-dependencies", {})
            lists = [metadata.get("dependencies", []), *(extras[extra] for extra in wanted.extras)]
            for further in itertools.chain(*lists):
                self.build_for(further)


class Environment:
    """A virtual environment as a row of the matrix has it, outside the checkout."""

    def __init__(self, row, folder, wheelhouse):
        assert CHECKOUT not in folder.parents
        self.row, self.folder = row, folder
        self.bin = folder / "venv/bin"
        self._find_links = wheelhouse.find_links()
        (folder / "home").mkdir()
        run([interpreter(row), "-m", "venv", "--without-pip", folder / "venv"], folder)
        self.install(*map(wheelhouse.pinned, row["install"]))
        run([*PIP, "--python", self.bin / "python", "check"], folder)
        if "no_deps" in row:
            self.install("--no-deps", *row["no_deps"])
        (self.site,) = (folder / "venv/lib").glob("python*/site-packages")
        self.words = {**VERSIONS, "checkout": str(CHECKOUT), "site": str(self.site)}
        for name, text in row.get("files", {}).items():
            (self.site / name).parent.mkdir(exist_ok=True)
            (self.site / name).write_text(text)

    def install(self, *arguments):
        """Install with the pip of these tests."""
        command = [*PIP, "--python", self.bin / "python", "install", "--no-compile", *arguments]
        run(command, self.folder, PIP_FIND_LINKS=self._find_links)

    def environ(self, **more):
        """Return the variables of its processes: those of its row, and these."""
        given = {"HOME": self.folder / "home", **self.row.get("environ", {}), **more}
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return {
            **{key: str(value).format_map(self.words) for key, value in given.items()},
            "PATH": path,
        }

    def run(self, command, status=0, deprived=(), **more):
        """Run a program of the environment, without what it is deprived of."""
        program, *arguments = command
        prefix = [part for what in deprived for part in without(what)]
        command = [*prefix, self.bin / program, *arguments]
        return run(command, self.folder, status, **self.environ(**more))


def interpreter(row):
    """Return the Python of a row: that of these tests, unless it names a version."""
    if "python" not in row:
        return sys.executable
    found = shutil.which(f"python{row['python']}")
    if found is None or subprocess.run([found, "-c", ""], check=False).returncode:
        pytest.skip(f"Python {row['python']} is not installed")
    return found


@functools.cache
def without(what):
    """Return the command that runs another one without a network, or with a read-only home."""
    command = UNSHARED[what]
    tried = subprocess.run([*command[:3], "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no process can be started without {what}: {tried.stderr.decode().strip()}")
    return command
