"""Extensions whose structures are words of eight bytes: versions of executables, and streams.

The SDK's header does not have them, as devrt calls neither.
"""

from __future__ import annotations

from typing import Any

from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.cases import api_case
from devrt_pjrt.conformance.made import compiled, executable_of, put
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.conformance.topologies import ahead

__all__: list[str] = []

_WORD = 8
_BASE = 3  # words of PJRT_Extension_Base
_STREAM, _ABI_VERSION = 3, 20
# Places of functions behind the base.
_RUNTIME, _EXECUTABLE, _END_RUNTIME, _FITS = 0, 1, 2, 4
_END_EXECUTABLE, _TO_PROTO = 7, 8
_GET_STREAM, _WAIT_ON_STREAM = 0, 1


def _call(raw: Raw, number: int, place: int, name: str, *words: int) -> tuple[Any, Answer | None]:
    """Call a function of an extension; ``words`` follow the size, 0 for each that it fills in."""
    base = raw.api.extensions().get(number)
    if base is None:
        raise NotApplicable(f"the library has no extension of number {number}, {name}")
    table = ffi.cast("uintptr_t *", base)
    is_there = base.struct_size >= (_BASE + place + 1) * _WORD
    function = table[_BASE + place] if is_there else 0
    if not function:
        raise NotApplicable(f"the library has no {name}")
    raw.start()
    raw.calling(name)
    args = raw.new("uintptr_t[]", [(len(words) + 1) * _WORD, *words])
    error = ffi.cast("PJRT_Error *(*)(void *)", function)(args)
    return args, raw.take(error)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _version_of(raw: Raw) -> int:
    """Return the version that an executable was compiled for; its end is the caller's."""
    try:
        executable = executable_of(raw, compiled(raw))
    except NotApplicable:
        executable = ahead(raw)
    name = "PJRT_AbiVersion.executable_get_abi_version"
    args, answer = _call(raw, _ABI_VERSION, _EXECUTABLE, name, _address(executable), 0)
    raw.succeeded(name, answer)
    expect(args[2], expected="a version", came="a null pointer")
    return int(args[2])


def _end(raw: Raw, place: int, version: int) -> None:
    name = "PJRT_AbiVersion.destroy"
    _, answer = _call(raw, _ABI_VERSION, place, name, version)
    raw.succeeded(name, answer)


@api_case("an executable's version is written as bytes", "PJRT_AbiVersion_Extension", deadline=60)
def executables_have_a_version(raw: Raw) -> None:
    version = _version_of(raw)
    name = "PJRT_AbiVersion.executable_abi_version_to_proto"
    args, answer = _call(raw, _ABI_VERSION, _TO_PROTO, name, version, 0, 0, 0, 0)
    raw.succeeded(name, answer)
    expect(args[3], expected="bytes of a version", came="none")
    if args[4] and args[5]:
        ffi.cast("void (*)(void *)", args[5])(ffi.cast("void *", args[4]))
    _end(raw, _END_EXECUTABLE, version)


@api_case("what the library compiled fits the library", "PJRT_AbiVersion_Extension", deadline=60)
def executables_fit_their_library(raw: Raw) -> None:
    name = "PJRT_AbiVersion.client_runtime_abi_version"
    args, answer = _call(raw, _ABI_VERSION, _RUNTIME, name, _address(raw.client), 0)
    raw.succeeded(name, answer)
    runtime, version = int(args[2]), _version_of(raw)
    name = "PJRT_AbiVersion.is_compatible_with_executable"
    _, answer = _call(raw, _ABI_VERSION, _FITS, name, runtime, version)
    _end(raw, _END_EXECUTABLE, version)
    _end(raw, _END_RUNTIME, runtime)
    if answer is not None:
        raise Failure("an executable that fits the library that compiled it", str(answer))


@api_case("a stream waits for a buffer", "PJRT_Stream_Extension")
def streams_wait_for_buffers(raw: Raw) -> None:
    name = "PJRT_Stream.get_stream"
    args, answer = _call(raw, _STREAM, _GET_STREAM, name, _address(raw.device()), 0)
    raw.succeeded(name, answer)
    name = "PJRT_Stream.wait_stream"
    buffer = put(raw)
    _, answer = _call(raw, _STREAM, _WAIT_ON_STREAM, name, int(args[2]), _address(buffer))
    raw.succeeded(name, answer)
