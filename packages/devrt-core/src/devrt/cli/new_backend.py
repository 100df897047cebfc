"""Writing the project of a new backend: one of the examples, under another name.

The templates are the examples themselves: links in a checkout, copies in a wheel.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path

from devrt.errors import InvalidArgumentError

__all__ = ["write_project"]

_TEMPLATES = Path(__file__).with_name("templates")
_PLATFORM = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_LONGEST = 64  # characters: it becomes part of the names of files and variables
_WORDS = ("all", "default", "devrt", "none", "test")
_EXAMPLE = re.compile(
    r"(devrt-)?(acme|Acme|ACME)(?:[-_]?(?:pjrt|Pjrt|PJRT|native|Native|NATIVE)(?![a-z]))?"
)
_BUILT = re.compile(r"__pycache__|build|dist|\..*_cache|.*\.egg-info|.*\.so|.*\.pyc")


def write_project(platform: str, template: str, folder: str | None = None) -> list[Path]:
    """Write the project of a backend; return its files.

    Parameters
    ----------
    platform
        The platform that the backend will serve.
    template
        The name of one in ``templates``.
    folder
        Where to, else to ``devrt-NAME`` in the current folder. It must not be there yet.

    Raises
    ------
    InvalidArgumentError
        If the name is none or is taken, or if the folder is there or cannot be written.
    """
    _check_name(platform)
    target = Path(folder or f"devrt-{platform.replace('_', '-')}")
    if target.exists():
        msg = f"{target} is there already. Remove it, or give another folder with --output."
        raise InvalidArgumentError(msg, platform=platform)
    source = _TEMPLATES / template
    try:
        # Moved when it is whole: what fails leaves nothing behind.
        with tempfile.TemporaryDirectory(dir=target.parent) as beside:
            made = Path(beside, "project")
            names = [_write(path, source, made, platform) for path in _files(source)]
            made.rename(target)
    except OSError as error:
        msg = f"the project {target} cannot be written: {error.strerror}. Give another folder."
        raise InvalidArgumentError(msg, platform=platform) from error
    return [target / name for name in names]


def _check_name(platform: str) -> None:
    if not _PLATFORM.fullmatch(platform) or len(platform) > _LONGEST:
        msg = (
            f"{platform!r} is no name of a platform. Give lower-case letters and digits, which may "
            f"be parted by single underscores, {_LONGEST} characters at most, and a letter first: "
            "acme, acme_x1."
        )
        raise InvalidArgumentError(msg, platform=platform)
    owner = _owner(platform)
    if owner:
        msg = f"the name {platform!r} is taken: {owner}. Give another one."
        raise InvalidArgumentError(msg, platform=platform)


def _owner(platform: str) -> str:
    """Return who has a name as platform, distribution or package; empty if nobody does."""
    from devrt.plugins.discovery.installed import discover_plugins
    from devrt.plugins.discovery.known import wheels_for

    if platform in _WORDS:
        return "it means something else where platforms are named"
    if platform in sys.stdlib_module_names:
        return "a module of Python's standard library is called so"
    for ref in discover_plugins():
        if ref.platform == platform:
            return f"{ref} serves that platform here"
    for wheel in wheels_for(platform):
        return f"{wheel} serves that platform"
    package, distribution = f"devrt_{platform}", f"devrt-{platform.replace('_', '-')}"
    with contextlib.suppress(metadata.PackageNotFoundError):
        metadata.distribution(distribution)
        return f"the distribution {distribution} is installed"
    taken = [name for name in (package, platform) if util.find_spec(name)]
    return f"the package {taken[0]} is installed" if taken else ""


def _files(source: Path) -> list[Path]:
    """Return the files of an example, without what building and testing it left there."""
    found: list[Path] = []
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if not _BUILT.fullmatch(name))
        found += [Path(folder, name) for name in sorted(files) if not _BUILT.fullmatch(name)]
    return found


def _write(path: Path, source: Path, made: Path, platform: str) -> str:
    """Write one file under the new name; return its path in the project."""
    name = _renamed(path.relative_to(source).as_posix(), platform)
    target = made / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(_renamed(path.read_text("utf-8"), platform), "utf-8")
    return name


def _renamed(text: str, platform: str) -> str:
    """Return a text with the example's name replaced, in every spelling of it."""
    camel = "".join(part.capitalize() for part in platform.split("_"))

    def new(match: re.Match[str]) -> str:
        prefix, spelt = match[1] or "", match[2]
        if prefix:
            return prefix + platform.replace("_", "-")
        return {"acme": platform, "Acme": camel, "ACME": platform.upper()}[spelt]

    return _EXAMPLE.sub(new, text)
