"""Compilers of kernels at run time: libraries of one interface under the vendors' prefixes."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devrt._support.record import record
from devrt.errors import InvalidArgumentError
from devrt.native.wheel_libraries import wheel_folders

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache
    from devrt.native.wheel_libraries import VendorLibrary

__all__ = ["KernelCompiler"]


@record(frozen=True, slots=True, kw_only=True)
class KernelCompiler:
    """A library that makes images for devices of source code. It needs no device.

    Attributes
    ----------
    format : str
        What the source is called (``"acme"``).
    prefix : str
        What the names of its functions begin with (``"acmertc"``).
    image : str
        What its functions call an image (``"Code"``).
    architecture : str
        The option that says what to compile for, up to the name (``"--arch="``).
    library : VendorLibrary
        Where it is.
    headers : str
        A header that a folder of the vendor's headers has; empty if the compiler needs none.
    header_folders : tuple of str
        Folders of wheels that may have them, below ``site-packages``.
    header_variables : tuple of str
        Environment variables that name a toolkit, whose folder ``include`` may.
    system_header_folders : tuple of str
        Folders of the system that may, the last to be looked into.
    aborts : tuple of str
        Versions, as `version` has them, that end the process for an architecture which they do not
        know: it is tried in a child first.
    """

    format: str
    prefix: str
    image: str
    architecture: str
    library: VendorLibrary
    headers: str = ""
    header_folders: tuple[str, ...] = ()
    header_variables: tuple[str, ...] = ()
    system_header_folders: tuple[str, ...] = ()
    aborts: tuple[str, ...] = ()

    def compile(
        self,
        source: str,
        architecture: str,
        options: Sequence[str] = (),
        cache: ExecutableCache | None = None,
    ) -> bytes:
        """Return the image of a source for one kind of device.

        Parameters
        ----------
        source
            The source code.
        architecture
            What to compile for, as `Device.architecture` has it.
        options
            More options of the compiler.
        cache
            Where images are kept, and found by what they were compiled from, with which options and
            by which version of the compiler.

        Returns
        -------
        bytes
            What the driver of such a device loads.

        Raises
        ------
        InvalidArgumentError
            If it does not compile; the message has the compiler's log.
        BackendUnavailableError
            If there is no compiler; the message says what to install.
        """
        return self.compile_named(source, architecture, (), options, cache)[0]

    def compile_named(
        self,
        source: str,
        architecture: str,
        names: Sequence[str],
        options: Sequence[str] = (),
        cache: ExecutableCache | None = None,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return the image of a source, and what C++ calls the functions of some names.

        Parameters
        ----------
        names
            Name expressions of C++ (``"scale<float>"``), which make the compiler emit templates.
        source, architecture, options, cache
            As for `compile`.

        Returns
        -------
        tuple
            The image, and for each name expression the name in the image.
        """
        from devrt.compiling.cache import cache_key

        self._check_known(architecture)
        given = [f"{self.architecture}{architecture}", *options]
        given += [f"-I{folder}" for folder in self._header_folders()]
        if cache is None:
            return self._compile(source, given, names)
        key = cache_key(self.prefix, self.version(), *given, "", *names, "", source)
        kept = cache.get(key)
        if kept is not None:
            return _unpacked(kept)
        image, lowered = self._compile(source, given, names)
        packed = json.dumps(lowered).encode() + b"\0" + image
        cache.put(key, packed, name="kernels", platform=self.format)
        return image, lowered

    def version(self) -> str:
        """Return the version of the library that is there."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        library = self._library()
        self._function("Version")(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value} {os.path.basename(library._name)}"

    def _check_known(self, architecture: str) -> None:
        version = self.version()
        if version not in self.aborts:
            return
        from devrt.native.architecture_trial import fatal_signal

        option = f"{self.architecture}{architecture}"
        if name := fatal_signal(self._library()._name, self.prefix, option):
            msg = (
                f"compile failed: the compiler ({version}) does not know {architecture}, and ends "
                f"the process ({name}) where it is to compile for it. Install a later one."
            )
            raise InvalidArgumentError(msg, operation="compile")

    def _library(self) -> ctypes.CDLL:
        return _opened(self)

    def _function(self, name: str) -> Any:
        return getattr(self._library(), self.prefix + name)

    def _compile(
        self, source: str, options: Sequence[str], names: Sequence[str]
    ) -> tuple[bytes, dict[str, str]]:
        program = ctypes.c_void_p()
        self._check(
            "CreateProgram",
            *(ctypes.byref(program), source.encode(), b"kernels." + self.format.encode()),
            *(0, None, None),
        )
        try:
            for name in names:
                self._check("AddNameExpression", program, name.encode())
            listed = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            failed = self._function("CompileProgram")(program, len(options), listed)
            if failed:
                self._refuse(failed, self._read(program, "ProgramLog"))
            return self._read(program, self.image), {
                name: self._lowered(program, name) for name in names
            }
        finally:
            self._function("DestroyProgram")(ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, name: str) -> str:
        found = ctypes.c_char_p()
        self._check("GetLoweredName", program, name.encode(), ctypes.byref(found))
        return (found.value or b"").decode()

    def _header_folders(self) -> list[str]:
        """Return the first folder that has the vendor's headers; the caller's options go before."""
        toolkits = (os.environ.get(name) for name in self.header_variables)
        candidates = [
            *wheel_folders(self.header_folders),
            *(Path(toolkit, "include") for toolkit in toolkits if toolkit),
            *map(Path, self.system_header_folders),
        ]
        found = (each for each in candidates if self.headers and (each / self.headers).is_file())
        return [str(each) for each in itertools.islice(found, 1)]

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(f"Get{what}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        self._check(f"Get{what}", program, data)
        return data.raw

    def _check(self, name: str, *arguments: Any) -> None:
        if failed := self._function(name)(*arguments):
            self._refuse(failed, b"")

    def _refuse(self, code: int, log: bytes) -> None:
        words = self._function("GetErrorString")
        words.restype = ctypes.c_char_p
        msg = f"compile failed: {(words(code) or b'').decode()} ({code})."
        text = log.rstrip(b"\0").decode(errors="replace").strip()
        raise InvalidArgumentError(f"{msg}\n{text}" if text else msg, operation="compile")


@functools.cache
def _opened(compiler: KernelCompiler) -> ctypes.CDLL:
    return ctypes.CDLL(compiler.library.path("compile"))


def _unpacked(kept: bytes) -> tuple[bytes, dict[str, str]]:
    names, _, image = kept.partition(b"\0")
    return image, json.loads(names)
