"""Compilers of kernels at run time: libraries of one interface under the vendors' prefixes."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devrt import hardware
from devrt._support.record import record
from devrt.errors import BackendUnavailableError, InvalidArgumentError

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache

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
    libraries : tuple of str
        Names of the library, the newest first.
    folders : tuple of str
        Folders of wheels that have it, below ``site-packages``.
    system_folders : tuple of str
        Patterns of folders where it may lie beside those that the loader searches.
    remedy : str
        What to do where it is absent.
    """

    format: str
    prefix: str
    image: str
    architecture: str
    libraries: tuple[str, ...]
    folders: tuple[str, ...] = ()
    system_folders: tuple[str, ...] = ()
    remedy: str = ""

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
        from devrt.compiling.cache import cache_key

        given = [f"{self.architecture}{architecture}", *options]
        if cache is None:
            return self._compile(source, given)
        key = cache_key(self.prefix, self.version(), *given, "", source)
        found = cache.get(key)
        if found is None:
            found = self._compile(source, given)
            cache.put(key, found, name="kernels", platform=self.format)
        return found

    def version(self) -> str:
        """Return the version of the library that is there."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        library = self._library()
        self._function("Version")(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value} {os.path.basename(library._name)}"

    def _library(self) -> ctypes.CDLL:
        return _opened(self)

    def _function(self, name: str) -> Any:
        return getattr(self._library(), self.prefix + name)

    def _compile(self, source: str, options: Sequence[str]) -> bytes:
        program = ctypes.c_void_p()
        self._check(
            "CreateProgram",
            *(ctypes.byref(program), source.encode(), b"kernels." + self.format.encode()),
            *(0, None, None),
        )
        try:
            listed = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            failed = self._function("CompileProgram")(program, len(options), listed)
            if failed:
                self._refuse(failed, self._read(program, "ProgramLog"))
            return self._read(program, self.image)
        finally:
            self._function("DestroyProgram")(ctypes.byref(program))

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
    for path in _candidates(compiler):
        return ctypes.CDLL(str(path))
    listed = " or ".join(compiler.libraries)
    msg = f"there is no compiler for kernels: {listed} is not found. {compiler.remedy}"
    raise BackendUnavailableError(msg, operation="compile")


def _candidates(compiler: KernelCompiler) -> Iterator[Path]:
    for folder in compiler.folders:
        package, _, rest = folder.partition("/")
        spec = importlib.util.find_spec(package)
        for root in (spec and spec.submodule_search_locations) or ():
            for name in compiler.libraries:
                if (path := Path(root, rest, name)).is_file():
                    yield path
    found = hardware.find_shared_library(*compiler.libraries, folders=compiler.system_folders)
    if found is not None:
        yield found
