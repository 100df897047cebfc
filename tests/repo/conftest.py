"""The checkout as text. The rules here need no compiler and import none of the packages."""

import subprocess
from pathlib import Path

import pytest


class Checkout:
    """The files of this project that are, or would be, under version control."""

    def __init__(self, root):
        self.root = root
        self.core = root / "packages/devrt-core/src/devrt"
        self.packages = sorted(p.parent for p in root.glob("packages/*/pyproject.toml"))
        # Files that are not added yet count too: a rule should fail before the commit, not after.
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout.decode()
        names = sorted(set(listed.split("\0")) - {""})
        # A file that was removed is listed until its removal is staged.
        self.files = [root / name for name in names if (root / name).is_file()]

    def texts(self, *suffixes):
        """Yield each text file's path, relative to the root, and its content."""
        for path in self.files:
            if suffixes and path.suffix not in suffixes:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # a picture or another binary file
            yield path.relative_to(self.root).as_posix(), text

    def report(self, rule, *suffixes):
        """Return what a rule finds in every text file, one finding a line."""
        findings = (rule(name, text) for name, text in self.texts(*suffixes))
        return "\n".join(line for found in findings for line in found)


@pytest.fixture(scope="session")
def checkout():
    return Checkout(Path(__file__).resolve().parents[2])
