"""Buffers and programs for cases, and what is read back of them."""

from __future__ import annotations

import math
from typing import Any

from devrt.dtypes import ELEMENT_TYPES
from devrt.testing.conformance import Failure, NotApplicable, expect
from devrt_pjrt._native import ffi
from devrt_pjrt.conformance.raw import Answer, Raw
from devrt_pjrt.library.api import text_of

__all__ = [
    "ADD",
    "F32",
    "FLOATS",
    "ONE_DEVICE",
    "compiled",
    "expect_floats",
    "fetch",
    "floats",
    "program_of",
    "put",
    "put_args",
    "run",
    "taken",
    "text",
    "written",
]

F32 = 11
FLOATS = (1.0, 2.0, 3.0, 4.0)
BITS = {element.code: element.bits for element in ELEMENT_TYPES}

ADD = """module @conform {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""

ONE_DEVICE = bytes.fromhex("1a0420012801")
"""A CompileOptionsProto with one replica of one partition."""


def floats(raw: Raw, values: Any = FLOATS) -> Any:
    """Return C memory with floats."""
    return raw.new("float[]", list(values))


def put_args(raw: Raw, data: Any = None, kind: int = F32, dims: Any = (4,), **fields: Any) -> Any:
    """Put host memory, ``FLOATS`` if omitted, on the first device; return the arguments.

    The buffer is destroyed when the case ends.
    """
    args, answer = try_put(raw, data, kind, dims, **fields)
    raw.succeeded("PJRT_Client_BufferFromHostBuffer", answer)
    if args.buffer == ffi.NULL:
        raise Failure("PJRT_Client_BufferFromHostBuffer gives a buffer", "a null pointer")
    raw.own("PJRT_Buffer_Destroy", buffer=args.buffer)
    return args


def try_put(
    raw: Raw, data: Any = None, kind: int = F32, dims: Any = (4,), **fields: Any
) -> tuple[Any, Answer | None]:
    """Do as `put_args` and return its error; the buffer is the caller's."""
    client, device = raw.client, raw.device()
    given = {
        "client": client,
        "data": floats(raw) if data is None else data,
        "type": kind,
        "dims": raw.numbers(dims),
        "num_dims": len(dims),
        "device": device,
        **fields,
    }
    return raw.attempt("PJRT_Client_BufferFromHostBuffer", **given)


def put(raw: Raw, data: Any = None, kind: int = F32, dims: Any = (4,), **fields: Any) -> Any:
    """Put host memory on the first device and wait until the source is free; return the buffer."""
    args = put_args(raw, data, kind, dims, **fields)
    if args.done_with_host_buffer != ffi.NULL:
        # Zero copy: the source is given back when the buffer is gone, and the case keeps it.
        if fields.get("host_buffer_semantics", 0) < 2:
            raw.done(args.done_with_host_buffer, "done_with_host_buffer")
        else:
            raw.own("PJRT_Event_Destroy", event=args.done_with_host_buffer)
    return args.buffer


def taken(raw: Raw, args: Any) -> Any:
    """Return what `try_put` made, once the source is free; it is destroyed when the case ends."""
    raw.own("PJRT_Buffer_Destroy", buffer=args.buffer)
    if args.done_with_host_buffer != ffi.NULL:
        raw.done(args.done_with_host_buffer, "done_with_host_buffer")
    return args.buffer


def fetch(raw: Raw, buffer: Any, size: int | None = None, **fields: Any) -> bytes:
    """Read a buffer's bytes; the size that the library says must be ``size``, where that is given.

    An error fails the case.
    """
    found = try_fetch(raw, buffer, size, **fields)
    if isinstance(found, Answer):
        raise Failure("a buffer that can be read", str(found))
    return found


def try_fetch(raw: Raw, buffer: Any, size: int | None = None, **fields: Any) -> bytes | Answer:
    """Read a buffer's bytes, or return the error that came of it."""
    args, answer = raw.attempt("PJRT_Buffer_ToHostBuffer", src=buffer, **fields)
    if answer is not None:
        return answer
    count = int(args.dst_size)
    if size is not None:
        expect(count >= size, expected=f"a dst_size of {size} bytes", came=str(count))
    memory = raw.new("char[]", count + 16)
    memory[count : count + 16] = b"\xa5" * 16
    args, answer = raw.attempt(
        "PJRT_Buffer_ToHostBuffer", src=buffer, dst=memory, dst_size=count, **fields
    )
    if answer is None:
        answer = raw.settle(args.event, "PJRT_Buffer_ToHostBuffer")
    if answer is not None:
        return answer
    behind = bytes(ffi.buffer(memory, count + 16))[count:]
    expect(behind == b"\xa5" * 16, expected=f"{count} bytes written", came="bytes behind them too")
    return bytes(ffi.buffer(memory, count))


def expect_floats(raw: Raw, buffer: Any, expected: Any, what: str) -> None:
    """Fail the case unless a buffer holds these floats."""
    data = fetch(raw, buffer, 4 * len(expected))
    came = list(memoryview(data)[: 4 * len(expected)].cast("f"))
    expect(came == list(expected), expected=f"{list(expected)} in {what}", came=came)


def program_of(raw: Raw, code: bytes | str = ADD, form: bytes = b"mlir") -> Any:
    """Return a ``PJRT_Program``."""
    data = code.encode() if isinstance(code, str) else code
    return raw.arguments(
        "PJRT_Program",
        code=raw.text(data),
        code_size=len(data),
        format=raw.text(form),
        format_size=len(form),
    )


def compiled(
    raw: Raw, code: bytes | str = ADD, options: bytes = ONE_DEVICE, form: bytes = b"mlir"
) -> Any:
    """Compile a program and return the ``PJRT_LoadedExecutable``, destroyed when the case ends."""
    loaded = raw.call(
        "PJRT_Client_Compile",
        client=raw.client,
        program=program_of(raw, code, form),
        compile_options=raw.text(options),
        compile_options_size=len(options),
    ).executable
    if loaded == ffi.NULL:
        raise Failure("PJRT_Client_Compile gives an executable", "a null pointer")
    raw.own("PJRT_LoadedExecutable_Destroy", executable=loaded)
    return loaded


def executable_of(raw: Raw, loaded: Any) -> Any:
    """Return the ``PJRT_Executable`` of a loaded one, destroyed when the case ends."""
    args = raw.call("PJRT_LoadedExecutable_GetExecutable", loaded_executable=loaded)
    if args.executable == ffi.NULL:
        raise Failure("PJRT_LoadedExecutable_GetExecutable gives an executable", "a null pointer")
    raw.own("PJRT_Executable_Destroy", executable=args.executable)
    return args.executable


def try_run(
    raw: Raw, loaded: Any, arguments: Any, outputs: int = 1, **fields: Any
) -> tuple[list[Any], Any, Answer | None]:
    """Run a program on one device: results, the event of the end, and its error.

    ``options`` and any other field of ``PJRT_LoadedExecutable_Execute_Args`` may be given.
    """
    row = raw.new("PJRT_Buffer *[]", [*arguments, ffi.NULL])
    lists = raw.new("PJRT_Buffer * const *[]", [row])
    out = raw.new("PJRT_Buffer *[]", [ffi.NULL] * (outputs + 1))
    outs = raw.new("PJRT_Buffer **[]", [out])
    events = raw.new("PJRT_Event *[]", [ffi.NULL])
    given = {
        "executable": loaded,
        "options": raw.arguments("PJRT_ExecuteOptions"),
        "argument_lists": lists,
        "num_devices": 1,
        "num_args": len(arguments),
        "output_lists": outs,
        "device_complete_events": events,
        **fields,
    }
    _, answer = raw.attempt("PJRT_LoadedExecutable_Execute", **given)
    made = [] if answer is not None else [out[i] for i in range(outputs)]
    for buffer in made:
        if buffer == ffi.NULL:
            raise Failure("a buffer for each output", "a null pointer")
        raw.own("PJRT_Buffer_Destroy", buffer=buffer)
    if events[0] != ffi.NULL:
        raw.own("PJRT_Event_Destroy", event=events[0])
    return made, events[0], answer


def run(raw: Raw, loaded: Any, arguments: Any, outputs: int = 1, **fields: Any) -> list[Any]:
    """Run a program on one device, which has to succeed, and return its results."""
    made, event, answer = try_run(raw, loaded, arguments, outputs, **fields)
    raw.succeeded("PJRT_LoadedExecutable_Execute", answer)
    if event != ffi.NULL:
        failed = raw.settle(event, "device_complete_events", owned=False)
        expect(failed is None, expected="a program that ends without an error", came=str(failed))
    return made


def written(args: Any, what: str) -> bytes:
    """Return the bytes that a function wrote, an executable's or a topology's, and free them."""
    data = bytes(ffi.buffer(args.serialized_bytes, args.serialized_bytes_size))
    free = getattr(args, f"serialized_{what}_deleter")
    expect(free, expected="a deleter", came="a null pointer")
    free(getattr(args, f"serialized_{what}"))
    expect(data, expected="bytes", came="none")
    return data


def text(args: Any, field: str) -> str:
    """Return characters of which a structure has pointer and size."""
    return text_of(getattr(args, field), getattr(args, f"{field}_size"))


def several(raw: Raw, count: int = 2) -> list[Any]:
    """Return that many addressable devices; with fewer the case is not applicable."""
    found = raw.devices()
    if len(found) < count:
        raise NotApplicable(f"the client has {len(found)} addressable devices, not {count}")
    return found[:count]


def size_in_bytes(dims: Any, bits: int = 32) -> int:
    """Return how many bytes elements of a type take on the host, at least one each."""
    return int(math.prod(dims)) * max(8, bits) // 8
