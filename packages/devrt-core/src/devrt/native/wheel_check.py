"""What is wrong with a backend's wheel, before anybody installs it.

Nothing of the wheel is installed or run: ``devrt conform`` does that.
"""

from __future__ import annotations

import configparser
import email
import os
import re
import zipfile
from collections.abc import Iterator
from email.message import Message
from typing import TYPE_CHECKING, NamedTuple

from devrt.errors import DevrtError
from devrt.native import ABI_VERSION
from devrt.native.domains import domain_in
from devrt.native.elf import SharedLibrary, read_library

if TYPE_CHECKING:
    from devrt.plugins.loading.manifest import BackendManifest

__all__ = ["Fault", "check_wheel"]

_GROUP = "devrt_plugins"
_MOST_BYTES = 100 << 20  # PyPI takes no larger file by itself
_ABI_SYMBOL = re.compile(r"devrt_native_abi_(\d+)")
_SPLIT, _LINKED = b"nanobind_backend\0", b"__nb_internals_"
_OF_THE_SYSTEM = re.compile(
    r"(lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|resolv|nsl|crypt)|ld-linux[-\w]*|linux-vdso)\.so\b"
)
_NATIVE = re.compile(r"""["']((?:\w+\.)+_ext)["']""")  # as GpuPlatform and register name it
_GPU = "GpuPlatform("
_ORIGIN = re.compile(r"\$(ORIGIN|\{ORIGIN\})(/|$)")


class Fault(NamedTuple):
    """Something wrong with a wheel.

    Attributes
    ----------
    is_error : bool
        Whether the wheel does not work, at least for some users; else it is worth a look.
    message : str
        What is wrong, and on which file.
    remedy : str
        What to do about it.
    """

    is_error: bool
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'warning'}: {self.message}. {self.remedy}"


def check_wheel(path: str | os.PathLike[str]) -> list[Fault]:
    """Return what is wrong with a backend's wheel; nothing where all is well.

    Parameters
    ----------
    path
        The wheel's file.

    Returns
    -------
    list of Fault
        Errors first.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            wheel = _Wheel(os.path.basename(path), os.path.getsize(path), archive)
            found = [*_of_the_name(wheel), *_of_the_metadata(wheel), *_of_the_plugin(wheel)]
            found += [*_of_the_modules(wheel), *_of_the_native_half(wheel)]
    except (OSError, zipfile.BadZipFile) as error:
        return [_error(f"{os.fspath(path)} cannot be read: {error}", "Build the wheel again.")]
    return sorted(found, key=lambda fault: not fault.is_error)


def _error(message: str, remedy: str) -> Fault:
    return Fault(True, message, remedy)


def _warning(message: str, remedy: str) -> Fault:
    return Fault(False, message, remedy)


class _Wheel:
    """An opened wheel: its names, what it says of itself, and its libraries."""

    def __init__(self, name: str, size: int, archive: zipfile.ZipFile) -> None:
        self.name = name
        self.size = size
        self.names = archive.namelist()
        self._archive = archive
        self.metadata: Message = email.message_from_string(self._of_dist_info("METADATA"))
        self.libraries: dict[str, bytes] = {
            each: archive.read(each) for each in self.names if re.search(r"\.so(\.\d+)*$", each)
        }

    @property
    def modules(self) -> dict[str, bytes]:
        """The libraries that Python imports."""
        return {name: data for name, data in self.libraries.items() if b"PyInit_" in data}

    def text(self, name: str) -> str | None:
        """Return a file's text; None if it is not there."""
        return self._archive.read(name).decode() if name in self.names else None

    def sources(self) -> dict[str, str]:
        """Return the Python files of the wheel, as text."""
        return {
            n: self._archive.read(n).decode("utf-8", "replace")
            for n in self.names
            if n.endswith(".py")
        }

    def entry_points(self) -> dict[str, str]:
        """Return the modules of the plugins by platform."""
        parser = configparser.ConfigParser(delimiters=("=",))
        parser.read_string(self._of_dist_info("entry_points.txt"))
        return dict(parser[_GROUP]) if parser.has_section(_GROUP) else {}

    def _of_dist_info(self, name: str) -> str:
        found = [n for n in self.names if n.endswith(f".dist-info/{name}") and n.count("/") == 1]
        return (self.text(found[0]) or "") if found else ""


def _of_the_name(wheel: _Wheel) -> Iterator[Fault]:
    parts = wheel.name.removesuffix(".whl").split("-")
    if not wheel.name.endswith(".whl") or len(parts) not in (5, 6):
        yield _error(f"{wheel.name} is not named as a wheel", "Let the build backend name it.")
        return
    python, abi, platform = parts[-3:]
    if wheel.modules and abi != "abi3":
        yield _error(
            f"{wheel.name} is for {python} and {abi} alone",
            "Set wheel.py-api = 'cp311' of scikit-build-core: one wheel is for every Python.",
        )
    elif wheel.modules and python != "cp311":
        yield _warning(
            f"{wheel.name} is for {python} and later, and devrt for Python 3.11 and later",
            "Set wheel.py-api = 'cp311' of scikit-build-core.",
        )
    if wheel.modules and platform == "any":
        yield _error(f"{wheel.name} claims to be for any machine", "Let scikit-build-core tag it.")
    if platform.startswith("linux_"):
        yield _warning(
            f"{wheel.name} is tagged {platform}, which PyPI refuses",
            "Build it in a manylinux image, and run auditwheel repair.",
        )
    if wheel.size > _MOST_BYTES:
        yield _warning(
            f"{wheel.name} has {wheel.size >> 20} MiB, and PyPI takes 100 MB",
            "Strip the libraries, or ship the vendor's in wheels of their own.",
        )


def _of_the_metadata(wheel: _Wheel) -> Iterator[Fault]:
    if not wheel.metadata["Name"]:
        yield _error(f"{wheel.name} has no METADATA", "Build it with a build backend.")
        return
    needs = {
        re.split(r"[^\w.-]", need, maxsplit=1)[0].lower().replace("_", "-"): need
        for need in wheel.metadata.get_all("Requires-Dist", [])
        if "extra ==" not in need
    }
    core = needs.get("devrt-core")
    if core is None:
        yield _error("it does not require devrt-core", "Add it to dependencies, with a range.")
    elif not (">" in core and "<" in core):
        yield _warning(
            f"it requires {core!r}, which has no lower or no upper bound",
            "Give the range that you test, such as devrt-core>=0.1,<1.",
        )
    is_split = any(_SPLIT in data for data in wheel.modules.values())
    if is_split and "nanobind-backend" not in needs:
        yield _error(
            "its native module needs nanobind-backend, which it does not require",
            "Add nanobind-backend>=1.0 to dependencies.",
        )


def _of_the_plugin(wheel: _Wheel) -> Iterator[Fault]:
    tops = {name.split("/")[0] for name in wheel.names}
    if "devrt" in tops:
        yield _error(
            "it has files in the package devrt, which is devrt-core's",
            "Put them in a package of your own.",
        )
    points = wheel.entry_points()
    if not points:
        yield _error(
            f"it has no entry point of group {_GROUP}",
            f'Add [project.entry-points.{_GROUP}] with acme = "devrt_acme.plugin".',
        )
    for platform, module in points.items():
        path = module.partition(":")[0].replace(".", "/")
        if not {f"{path}.py", f"{path}/__init__.py"} & set(wheel.names):
            yield _error(
                f"its entry point {platform} names the module {module}, which it does not have",
                "Correct the name, or the list of packages that the wheel is made of.",
            )
    for package in dict.fromkeys(module.split(".")[0] for module in points.values()):
        yield from _of_the_manifest(wheel, package, points)


def _of_the_manifest(wheel: _Wheel, package: str, points: dict[str, str]) -> Iterator[Fault]:
    from devrt.plugins.discovery.refs import PluginRef
    from devrt.plugins.loading.api_version import check as check_api_version
    from devrt.plugins.loading.manifest_file import parse_manifest

    path = f"{package}/devrt.toml"
    text = wheel.text(path)
    if text is None:
        yield _warning(
            f"it has no manifest {path}",
            "Add one, so that devrt ranks the platform without an import.",
        )
        return
    distribution = str(wheel.metadata["Name"])
    platform, module = next(iter(points.items()))
    ref = PluginRef(platform=platform, distribution=distribution, module=module, source="wheel")
    try:
        backends = parse_manifest(text, ref, path)
        for backend in backends:
            check_api_version(ref, backend.api_version)
    except DevrtError as error:
        yield _error(error.message.rstrip("."), "See docs/backend-authors/manifest.md.")
        return
    for backend in backends:
        yield from _of_the_simulator(wheel, package, backend)
        if backend.platform not in points:
            yield _error(
                f"{path} has a backend of platform {backend.platform!r}, and no entry point of "
                "that name",
                "Call the entry point as the platform.",
            )


def _of_the_simulator(wheel: _Wheel, package: str, backend: BackendManifest) -> Iterator[Fault]:
    """Look at what simulated devices of a GPU backend need; others simulate in their own way."""
    if not any(_GPU in text for text in wheel.sources().values()):
        return
    platform = backend.platform
    variable, wanted = f"DEVRT_{platform.upper()}_MOCK", f"libdevrt_{platform}_simulator.so"
    is_named = all(variable in requirement.unless_set for requirement in backend.requires)
    shipped = {os.path.basename(name) for name in wheel.libraries}
    if is_named and backend.requires and wanted not in shipped:
        others = ", ".join(sorted(name for name in shipped if "simulator" in name))
        called = f", but {others}" if others else ""
        yield _error(
            f"{package}/devrt.toml names {variable}, and the wheel has no {wanted}{called}",
            f"Install devrt_add_gpu_simulator(devrt_{platform}_simulator ...) beside the module.",
        )
    elif not is_named and wanted in shipped:
        yield _error(
            f"{package}/devrt.toml requires what simulated devices do not need",
            f'Give each [[backend.requires]] unless_set = ["{variable}"].',
        )


def _of_the_native_half(wheel: _Wheel) -> Iterator[Fault]:
    """Look for the native modules that the wheel's Python names."""
    tops = {name.split("/")[0] for name in wheel.names}
    named = {
        match[1]: name for name, text in wheel.sources().items() for match in _NATIVE.finditer(text)
    }
    for module, name in named.items():
        path = module.replace(".", "/")
        if module.split(".")[0] in tops and not {f"{path}.abi3.so", f"{path}.so"} & {*wheel.names}:
            yield _error(
                f"{name} names the native module {module}, which the wheel does not have",
                "Install it with install(TARGETS) of CMake, into the package's folder.",
            )


def _of_the_modules(wheel: _Wheel) -> Iterator[Fault]:
    shipped = {os.path.basename(name) for name in wheel.libraries}
    for name, data in wheel.libraries.items():
        try:
            library = read_library(data)
        except ValueError as error:
            yield _error(f"{name} cannot be loaded: {error}", "Build the wheel again.")
            continue
        yield from _of_the_loader(name, library, shipped)
        if name in wheel.modules:
            yield from _of_one_module(name, data, library)
    if any("nanobind_backend" in name for name in wheel.libraries):
        yield _error(
            "it ships nanobind's backend itself",
            "Require the distribution nanobind-backend instead: all modules share one.",
        )


def _of_one_module(name: str, data: bytes, library: SharedLibrary) -> Iterator[Fault]:
    domain, package = domain_in(data), name.split("/")[0]
    if domain and domain != package:
        yield _error(
            f"{name} has the NB_DOMAIN {domain}: where the modules of {domain} are loaded too, one "
            "of them loses its classes",
            f"Build it with NB_DOMAIN {package}.",
        )
    if not name.endswith(".abi3.so"):
        yield _error(
            f"{name} is not built for the stable ABI",
            "Build it with devrt_add_backend_module, and without DEVRT_LINKED_NANOBIND.",
        )
    if _LINKED in data:
        yield _error(
            f"{name} has nanobind linked into it, so each Python needs a module of its own",
            "Build it without DEVRT_LINKED_NANOBIND, and require nanobind-backend.",
        )
    found = [int(m[1]) for s in library.defined if (m := _ABI_SYMBOL.fullmatch(s))]
    if not found:
        yield _error(
            f"{name} does not record the native ABI that it was built with",
            "Build it with devrt_add_backend_module of this devrt-core.",
        )
    elif found != [ABI_VERSION]:
        yield _error(
            f"{name} was built with version {found[0]} of the native ABI, and this devrt-core has "
            f"version {ABI_VERSION}",
            "Build it with this devrt-core, and require what has that version.",
        )


def _of_the_loader(name: str, library: SharedLibrary, shipped: set[str]) -> Iterator[Fault]:
    for folder in filter(None, library.search_path.split(":")):
        if not _ORIGIN.match(folder):
            yield _error(
                f"{name} looks for libraries in {folder}, a folder of the machine that built it",
                "Set INSTALL_RPATH to $ORIGIN, and install the module with install(TARGETS).",
            )
    for needed in library.needed:
        if needed.startswith("libpython"):
            yield _error(
                f"{name} needs {needed}, which most Pythons have no shared library of",
                "Do not link Python into a module.",
            )
        elif needed in shipped:
            if not library.search_path:
                yield _error(
                    f"{name} needs {needed} of the wheel, and does not look for it there",
                    "Set INSTALL_RPATH to $ORIGIN.",
                )
        elif not _OF_THE_SYSTEM.match(needed):
            yield _error(
                f"{name} needs {needed}, without which it cannot be imported",
                "Open a driver's library with dlopen when a client is made; ship any other.",
            )
