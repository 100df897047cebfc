"""Which versions of CUDA's libraries XLA's plugin finds here, and whether they are new enough.

Each row of `LIBRARIES` says how a library gives its version and from which one on the plugin works;
the driver's library is one of them, whose version is the latest of CUDA that it serves.
The libraries are loaded in a child process: one that crashes, or takes long, ends that alone. They
are looked for where the plugin finds them: ``LD_LIBRARY_PATH``, the wheels beside it, the loader.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from devrt.contract.conflicts import KnownConflict, with_override
from devrt.contract.installation import how_to_install
from devrt.errors import BackendUnavailableError, DevrtWarning
from devrt.records import DoctorFinding
from devrt_cuda._known_conflicts import Version, found_of

__all__ = ["IGNORED", "LIBRARIES", "Found", "Library", "check", "findings", "problems"]

IGNORED = "DEVRT_CUDA_IGNORE_VERSIONS"
"""The environment variable that lists names of libraries that are taken as they are."""

_PLUGIN = "jax-cuda13-pjrt"  # the wheel whose needs these are; CUDA 12's plugin has others
_GET_DRIVER = (
    "Install driver 580 or later (https://www.nvidia.com/drivers), or NVIDIA's package for forward "
    "compatibility with CUDA 13"
)
_PATIENCE = 20.0  # seconds; the libraries have gigabytes, and a disk may be cold


class Library(NamedTuple):
    """A library of CUDA's, how it gives its version, and the oldest that works.

    ``function`` fills an integer of which ``units`` are what one of major and minor counts; where
    ``units`` is empty it fills the part of the version that its first argument names (0 for major,
    1 for minor). Where ``returns`` is true it returns the integer. What follows the minor version
    does not count: of all these libraries a patch breaks nothing, newer or older. ``wheel`` has the
    library; the driver's is in none.
    """

    name: str
    file: str
    function: str
    oldest: Version
    wheel: str = ""
    units: tuple[int, ...] = ()
    returns: bool = False


# The oldest are those that the extra `xla` requires. A library of another major version has another
# file name, so that it is not found at all.
LIBRARIES = (
    # 580 is the oldest driver for any CUDA 13, by the table of
    # https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html.
    # Its library counts in place of the kernel module, since NVIDIA's package for forward
    # compatibility brings a later library for an older module.
    Library("driver", "libcuda.so.1", "cuDriverGetVersion", (13, 0), units=(1000, 10)),
    Library(
        "cudart",
        "libcudart.so.13",
        "cudaRuntimeGetVersion",
        (13, 0),
        "nvidia-cuda-runtime",
        (1000, 10),
    ),
    Library(
        "cudnn",
        "libcudnn.so.9",
        "cudnnGetVersion",
        (9, 12),
        "nvidia-cudnn-cu13",
        (10000, 100),
        returns=True,
    ),
    Library("cufft", "libcufft.so.12", "cufftGetVersion", (12, 0), "nvidia-cufft", (1000, 100)),
    Library(
        "cusolver",
        "libcusolver.so.12",
        "cusolverGetVersion",
        (12, 0),
        "nvidia-cusolver",
        (1000, 100),
    ),
    # Without a driver this one answers with an error alone (seen with 13.5).
    Library(
        "cupti",
        "libcupti.so.13",
        "cuptiGetVersion",
        (13, 0),
        "nvidia-cuda-cupti",
        (10000, 100),
    ),
    Library("cublas", "libcublas.so.13", "cublasGetProperty", (13, 0), "nvidia-cublas"),
    Library("cusparse", "libcusparse.so.12", "cusparseGetProperty", (12, 6), "nvidia-cusparse"),
)


class Found(NamedTuple):
    """What a child process reported of a library; ``problem`` says why it has no ``version``."""

    library: Library
    path: str
    version: Version
    problem: str


def check(environ: dict[str, str] | None = None) -> None:
    """Refuse libraries that are older than XLA's plugin works with.

    Raises
    ------
    BackendUnavailableError
        If one is; the message has its file, both versions and what to do. One that is missing is
        left to the plugin, which does without some of them.
    """
    for found in problems(_found(), os.environ if environ is None else environ):
        if found.version:
            raise BackendUnavailableError(_message(found), platform="cuda")
    for conflict, what in _known_conflicts():
        message = with_override(f"{conflict.message(what)} {conflict.remedy}", conflict.id)
        if conflict.severity == "error":
            raise BackendUnavailableError(message, platform="cuda")
        warnings.warn(message, DevrtWarning, stacklevel=2)


def findings() -> Iterator[DoctorFinding]:
    """Yield what is wrong with the libraries, for the doctor."""
    for found in problems(_found(), os.environ):
        if not (found.version or found.library.wheel):
            continue  # whether there is a driver at all is the probe's to say
        remedy = f"{_command(found.library)}, or list {found.library.name} in {IGNORED}."
        # One that is not there is in order where programs are compiled only.
        severity = "error" if found.version else "info"
        code = f"{found.library.name}-{'old' if found.version else 'unknown'}"
        yield DoctorFinding(code=code, message=_message(found), remedy=remedy, severity=severity)
    for conflict, what in _known_conflicts():
        yield DoctorFinding(**conflict.finding(what))


def _known_conflicts() -> Iterator[tuple[KnownConflict, str]]:
    versions = [(each.library.name, each.version) for each in _found()]
    return found_of(versions, _capabilities)


def problems(found: Iterable[Found], environ: os._Environ[str] | dict[str, str]) -> list[Found]:
    """Return the libraries that are too old or could not be read, but for those to be ignored."""
    ignored = {name.strip() for name in environ.get(IGNORED, "").split(",")}
    return [
        each
        for each in found
        if each.library.name not in ignored
        and (each.problem or each.version[:2] < each.library.oldest)
    ]


def _message(found: Found) -> str:
    library, oldest = found.library, _dotted(found.library.oldest)
    if not found.version:
        return f"the version of {library.file} cannot be read: {found.problem}."
    have, go_on = _dotted(found.version), f"{IGNORED}={library.name} has it used all the same."
    if not library.wheel:
        return (
            f"the NVIDIA driver ({found.path}) serves CUDA up to {have}, and XLA's plugin for GPUs "
            f"({_PLUGIN}) needs {oldest}. {_GET_DRIVER}; {go_on}"
        )
    return (
        f"{library.file} ({found.path}) is of version {have}, and XLA's plugin for GPUs needs "
        f"{oldest} or later. Install {library.wheel} of such a version, or take away the older "
        f"one; {go_on}"
    )


def _command(library: Library) -> str:
    if not library.wheel:
        return _GET_DRIVER
    wanted = how_to_install(f"{library.wheel}>={_dotted(library.oldest)}")
    return f"Install a later one: {wanted}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _is_plugin_installed() -> bool:
    try:
        importlib.metadata.distribution(_PLUGIN)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@functools.cache
def _found() -> tuple[Found, ...]:
    """Return what a child process reports; what keeps it from that stands for each library."""
    if not _is_plugin_installed():
        return ()
    rows = [[row.file, row.function, row.units, row.returns, _paths(row)] for row in LIBRARIES]
    answers, ended = _answers_of("_versions_child.py", rows)
    answers += [["", [], ended]] * (len(LIBRARIES) - len(answers))
    return tuple(
        Found(library, path, tuple(version), problem)
        for library, (path, version, problem) in zip(LIBRARIES, answers, strict=True)
    )


@functools.cache
def _capabilities() -> tuple[Version, ...]:
    """Return the compute capabilities of the driver's devices; none where it does not tell."""
    driver = next(row for row in LIBRARIES if row.name == "driver")
    answers, _ = _answers_of("_capabilities_child.py", _paths(driver)[0])
    return tuple(tuple(each) for answer in answers for each in answer)


def _answers_of(script: str, request: object) -> tuple[list[Any], str]:
    """Run a script of this package in a child; return the lists that it writes, and how it ended.

    A line that is no list was cut off by its end.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name(script))],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        lines = done.stdout.splitlines()
        ended = f"the process that loaded it ended with status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        lines = (error.stdout or b"").decode(errors="replace").splitlines()
        ended = f"loading it took more than {_PATIENCE:.0f} s"
    return [json.loads(line) for line in lines if line.endswith("]")], ended


def _paths(library: Library) -> list[str]:
    """Return where a library may be, first what the loader takes first, and last its bare name."""
    given = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    spec = PathFinder.find_spec("nvidia")
    packages = (spec.submodule_search_locations or ()) if spec is not None else ()
    wheels = [str(folder) for package in packages for folder in Path(package).glob("*/lib")]
    files = (os.path.join(folder, library.file) for folder in (*filter(None, given), *wheels))
    return [*filter(os.path.isfile, files), library.file]
