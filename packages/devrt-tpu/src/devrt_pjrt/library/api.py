"""Calling a plugin's functions: structure sizes, functions that are not there, and errors."""

from __future__ import annotations

import functools
import os
from typing import Any

from devrt.errors import DevrtError, ForkedError, UnimplementedError, from_status
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.since import since

__all__ = ["Api", "structure_type", "text_of"]

_POINTER_BYTES = 8
_MOST_EXTENSIONS = 1000
_CHARACTERS, _DESCRIPTION = ffi.typeof("char *"), ffi.typeof("devrt_description *")
_SNAPSHOT = ffi.typeof("devrt_snapshot *")
_cast, _unpack, _getpid = ffi.cast, ffi.unpack, os.getpid


@functools.cache
def structure_type(name: str) -> tuple[Any, int]:
    """Return a structure's pointer type, and its size as plugins count it."""
    kind = ffi.typeof(name)
    field = kind.fields[-1][1]
    return ffi.typeof(f"{name} *"), field.offset + ffi.sizeof(field.type)


@functools.cache
def _end_of(function: str) -> int:
    return int(ffi.offsetof("PJRT_Api", function)) + _POINTER_BYTES


def text_of(data: Any, size: int) -> str:
    """Return a plugin's characters as text; bytes that are no UTF-8 are replaced."""
    return _unpack(_cast(_CHARACTERS, data), size).decode(errors="replace") if size else ""


class Api:
    """The function table of a plugin, a ``PJRT_Api*`` that is never freed; errors say ``name``.

    ``pid`` is the process that has initialised the plugin.
    """

    def __init__(self, table: Any, name: str) -> None:
        self.table = table
        self.name = name
        self.major = int(table.pjrt_api_version.major_version)
        self.minor = int(table.pjrt_api_version.minor_version)
        self.size = int(table.struct_size)
        self.pid: int | None = None
        self._known: dict[
            str, tuple[Any, Any, int]
        ] = {}  # by function: it, its arguments, their size

    def is_lost(self) -> bool:
        """Return whether this process was forked from the one that initialised the plugin."""
        return self.pid is not None and self.pid != os.getpid()

    def check_process(self, operation: str) -> None:
        """Refuse the child of a fork: the plugin's threads and held locks stayed behind."""
        if self.is_lost():
            msg = (
                f"{operation} failed: the PJRT plugin {self.name} was initialised by process "
                f"{self.pid}, which forked this one, and its threads stayed there. Start processes "
                "with the spawn method, or fork before the plugin is first used."
            )
            raise ForkedError(msg, operation=operation, plugin=self.name)

    def has(self, function: str) -> bool:
        """Return whether the plugin has a function; its table may end before it."""
        return _end_of(function) <= self.size and getattr(self.table, function) != ffi.NULL

    def new(self, structure: str, **fields: Any) -> Any:
        """Return a structure with its size and some fields filled in, the others zero."""
        kind, size = structure_type(structure)
        made = ffi.new(kind)
        made.struct_size = size
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    def call(self, function: str, **fields: Any) -> Any:
        """Call a function and return its arguments, in which its results are.

        What pointers among ``fields`` point to must be kept alive by the caller. Raises
        `UnimplementedError` if the plugin does not have the function, and whatever error it
        returns.
        """
        if self.pid != _getpid():
            self.check_process(function)
        known = self._known.get(function)
        if known is None:
            if not self.has(function):
                raise self.missing(function)
            known = getattr(self.table, function), *structure_type(f"{function}_Args")
            self._known[function] = known
        call, kind, size = known
        args = ffi.new(kind)
        args.struct_size = size
        for name, value in fields.items():
            setattr(args, name, value)
        error = call(args)
        if error:
            raise self.take(error, function)
        return args

    def call_with(self, function: str, args: Any) -> Any:
        """Call a function with arguments that are made already; see `call`."""
        self.check_process(function)
        if not self.has(function):
            raise self.missing(function)
        error = getattr(self.table, function)(args)
        if error:
            raise self.take(error, function)
        return args

    def describe_with(self, describe: Any, pointer: Any) -> Any:
        """Return a ``devrt_description`` that a function of the native half fills in."""
        if self.pid != _getpid():
            self.check_process("describe")
        row = ffi.new(_DESCRIPTION)
        self._check_described(describe(self.table, pointer, row), row)
        return row

    def snapshot(self, client: Any) -> Any:
        """Return a ``devrt_snapshot`` of a client, which does not need it to be alive."""
        if self.pid != _getpid():
            self.check_process("describe")
        made = ffi.gc(ffi.new(_SNAPSHOT), lib.devrt_snapshot_free)
        self._check_described(lib.devrt_snapshot_make(self.table, client, made), made.about)
        return made

    def _check_described(self, status: int, row: Any) -> None:
        if status == lib.DEVRT_OK:
            return
        function = ffi.string(row.function_name).decode()
        if status == lib.DEVRT_FAILED:
            raise self.take(row.error, function)
        if status == lib.DEVRT_NO_MEMORY:
            raise MemoryError
        raise self.missing(function)

    def missing(self, function: str) -> UnimplementedError:
        """Return the error for a function that the plugin does not have."""
        msg = (
            f"the PJRT plugin {self.name} has no {function}: it is of version "
            f"{self.major}.{self.minor}, and the function came with {self.major}.{since(function)}"
            f"{' and is optional' if self.minor >= since(function) else ''}. "
            "Use a later version of the plugin, or do without."
        )
        return UnimplementedError(
            msg, operation=function, plugin=self.name, since=(self.major, since(function))
        )

    def take(self, error: Any, operation: str, **data: Any) -> DevrtError:
        """Return a plugin's error as an exception, and destroy it."""
        try:
            return self.describe(error, operation, **data)
        finally:
            self.table.PJRT_Error_Destroy(self.new("PJRT_Error_Destroy_Args", error=error))

    def describe(self, error: Any, operation: str, **data: Any) -> DevrtError:
        """Return a plugin's error as an exception; the error stays its owner's."""
        args = self.new("PJRT_Error_Message_Args", error=error)
        self.table.PJRT_Error_Message(args)
        message = text_of(args.message, args.message_size)
        payload = self._payload(error)
        if payload:
            data["payload"] = payload
        return from_status(
            self._code(error),
            f"{operation} failed in the PJRT plugin {self.name}: {message}",
            operation=operation,
            plugin=self.name,
            **data,
        )

    def _code(self, error: Any) -> int:
        args = self.new("PJRT_Error_GetCode_Args", error=error)
        failed = self.table.PJRT_Error_GetCode(args)
        if failed:
            self.table.PJRT_Error_Destroy(self.new("PJRT_Error_Destroy_Args", error=failed))
            return 2
        return int(args.code)

    def _payload(self, error: Any) -> dict[str, bytes]:
        """Return what the plugin attached to an error, by the kind's name."""
        found: dict[str, bytes] = {}
        if not self.has("PJRT_Error_ForEachPayload"):
            return found

        @ffi.callback("PJRT_Error_PayloadVisitor")  # type: ignore[untyped-decorator]
        def visit(key: Any, key_size: int, value: Any, value_size: int, _: Any) -> None:
            found[text_of(key, key_size)] = bytes(ffi.buffer(value, value_size))

        args = self.new("PJRT_Error_ForEachPayload_Args", error=error, visitor=visit)
        failed = self.table.PJRT_Error_ForEachPayload(args)
        if failed:
            self.table.PJRT_Error_Destroy(self.new("PJRT_Error_Destroy_Args", error=failed))
        return found

    def extensions(self) -> dict[int, Any]:
        """Return the plugin's extensions by their number; the first of a number counts."""
        found: dict[int, Any] = {}
        at = self.table.extension_start
        for _ in range(_MOST_EXTENSIONS):  # a chain that leads back to itself must end
            if at == ffi.NULL:
                break
            found.setdefault(int(at.type), at)
            at = at.next
        return found

    def extension_names(self) -> tuple[str, ...]:
        """Return the names of the plugin's extensions, in their numbers' order."""
        known = ffi.typeof("PJRT_Extension_Type").elements
        names = (known.get(number, f"number {number}") for number in sorted(self.extensions()))
        return tuple(name.removeprefix("PJRT_Extension_Type_") for name in names)

    def extension(self, number: int, structure: str, function: str) -> Any | None:
        """Return an extension's function, or None where the plugin does not have it."""
        base = self.extensions().get(number)
        if base is None or base.struct_size < ffi.offsetof(structure, function) + _POINTER_BYTES:
            return None
        return getattr(ffi.cast(f"{structure} *", base), function) or None

    def make_core(self, client: Any) -> Any:
        """Return the native half of a client, which owns it from now on."""
        core = lib.devrt_core_make(self.table, client)
        if core == ffi.NULL:
            raise MemoryError
        return core
