"""Configuration files: ``[tool.devrt]`` of the project's ``pyproject.toml``, and the user's file.

The project's file is the nearest ``pyproject.toml`` in the working directory or above it; only its
table ``[tool.devrt]`` is looked at. The user's file is ``devrt/config.toml`` in the folder that
``XDG_CONFIG_HOME`` names (``~/.config`` without it), or the file that ``DEVRT_CONFIG_FILE`` names.
The project's file is the stronger.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from devrt._support.record import record
from devrt.errors import ConfigError

__all__ = ["FILE_VARIABLE", "ConfigFile", "read_config_files"]

FILE_VARIABLE = "DEVRT_CONFIG_FILE"

_PROJECT_FILE = "pyproject.toml"
_PROJECT_TABLE = b"tool.devrt"


@record(frozen=True, slots=True)
class ConfigFile:
    """The options that one file sets, unchecked.

    ``is_shared`` tells whether it serves many environments (the user's), so that an option of a
    plugin that is not installed in this one is no mistake.
    """

    path: str
    values: Mapping[str, Any]
    is_shared: bool


def read_config_files(
    environ: Mapping[str, str], folder: str, problems: list[ConfigError] | None = None
) -> tuple[ConfigFile, ...]:
    """Read the configuration files that are there, the strongest first.

    The search for the project's file begins in ``folder``. A file that cannot be read or is no
    valid TOML is left out and reported in ``problems``, and without these raises `ConfigError`.
    """
    found = []
    readers = (partial(_project_file, folder), partial(_user_file, environ))
    for read in readers:
        try:
            file = read()
        except ConfigError as error:
            if problems is None:
                raise
            problems.append(error)
            continue
        if file is not None:
            found.append(file)
    return tuple(found)


def _project_file(folder: str) -> ConfigFile | None:
    while True:
        path = os.path.join(folder, _PROJECT_FILE)
        if os.path.isfile(path):
            break
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    data = _read(path)
    if _PROJECT_TABLE not in data:  # spares the import of the TOML reader
        return None
    tool = _parse(path, data).get("tool")
    return _file(path, tool.get("devrt") if isinstance(tool, dict) else None, "[tool.devrt]", False)


def _user_file(environ: Mapping[str, str]) -> ConfigFile | None:
    named = environ.get(FILE_VARIABLE)
    if named:
        if not os.path.exists(named):
            msg = (
                f"environment variable {FILE_VARIABLE} names {named!r}, which does not exist. "
                "Correct it, or unset it to use the file in your configuration folder."
            )
            raise ConfigError(msg, path=named)
        return _file(named, _parse(named, _read(named)), "the file", True)
    home = environ.get("XDG_CONFIG_HOME") or (
        os.path.join(environ["HOME"], ".config") if environ.get("HOME") else ""
    )
    path = os.path.join(home, "devrt", "config.toml")
    if not home or not os.path.isfile(path):
        return None
    return _file(path, _parse(path, _read(path)), "the file", True)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        msg = f"configuration file {path} cannot be read: {error.strerror}. Fix that, or the path."
        raise ConfigError(msg, path=path) from error


def _parse(path: str, data: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"configuration file {path} is no valid TOML: {error}. Fix the file."
        raise ConfigError(msg, path=path) from error


def _file(path: str, values: object, where: str, is_shared: bool) -> ConfigFile | None:
    if values is None:
        return None
    if not isinstance(values, dict):
        msg = f"configuration file {path}: {where} must be a table of options, not {values!r}."
        raise ConfigError(msg, path=path)
    return ConfigFile(path, values, is_shared)
