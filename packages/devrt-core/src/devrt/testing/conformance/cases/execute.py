"""Calls of programs: arguments and results, what is refused, deletion, threads, serialisation."""

from __future__ import annotations

import gc
import pathlib
import tempfile
from typing import Any

import numpy as np

from devrt.contract import ExecutionToken, LoadedExecutable
from devrt.errors import (
    ClosedError,
    DeletedError,
    DevrtError,
    InvalidArgumentError,
    UnimplementedError,
)
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import (
    expect,
    expect_equal,
    expect_error,
    require,
)
from devrt.testing.conformance.material import DELETED, expect_printed, offered, put, together
from devrt.testing.conformance.programs import DOUBLE, compiled, program, slow, takes_programs
from devrt.testing.conformance.subject import Subject

X = np.arange(8, dtype=np.float32)
EXECUTE = "LoadedExecutable.execute: start the program on one device and return its results"
REFUSED = (
    "LoadedExecutable.execute: raises InvalidArgumentError if the number, dtype, shape or device "
    "of an argument does not fit the program"
)
TURNED = """module @turned {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<8xi32>)
      -> (tensor<3x2xf32>, tensor<8xi32>) {
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %0, %b : tensor<3x2xf32>, tensor<8xi32>
  }
}"""


def _doubles(executable: LoadedExecutable, argument: Any) -> None:
    (made,) = executable.execute([argument])
    expect_equal(np.asarray(made), 2 * X, "the doubled argument")


@case(
    "execute",
    "a client that takes no programs says so with a typed error",
    contract="Client.compile_and_load: raises UnimplementedError if the client takes no program "
    "of this format",
)
def absence_of_programs_is_reported(subject: Subject) -> None:
    client = subject.client
    require(not client.capabilities.formats, "its client compiles programs")
    expect_equal(tuple(client.program_formats), (), "program_formats")
    with expect_error(UnimplementedError):
        client.compile_and_load(DOUBLE)
    with expect_error(UnimplementedError):
        client.deserialize_executable(b"anything")
    expect_equal(client.live_executables(), [], "live_executables()")


@case(
    "execute",
    "what a client can run agrees with what it says that it can",
    contract="Capabilities.formats: what Client.compile_and_load takes, here and now",
)
def formats_agree(subject: Subject) -> None:
    client = subject.client
    formats = client.capabilities.formats
    expect_equal(tuple(client.program_formats), tuple(formats), "program_formats")
    with expect_error(DevrtError):
        client.compile_and_load("no program of any format")


@case("execute", "results have the shapes, dtypes and devices that the program has",
      contract=EXECUTE)  # fmt: skip
def results_are_as_declared(subject: Subject) -> None:
    executable = compiled(subject, TURNED)
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(8, dtype=np.int32)
    results = executable.execute([put(subject, a, subject.device), put(subject, b, subject.device)])
    expect_equal(len(results), 2, "how many results")
    for came, right in zip(results, (a.T.copy(), b), strict=True):
        expect_equal((came.shape, came.dtype), (right.shape, right.dtype), "shape and dtype")
        expect(came.device is subject.device, expected=subject.device, came=came.device)
        expect_equal(np.asarray(came), right, "a result")
    f32, i32 = np.dtype("float32"), np.dtype("int32")
    taken = [(tuple(shape), dtype) for shape, dtype in executable.parameters]
    given = [(tuple(shape), dtype) for shape, dtype in executable.outputs]
    expect_equal(taken, [((2, 3), f32), ((8,), i32)], "parameters")
    expect_equal(given, [((3, 2), f32), ((8,), i32)], "outputs")
    expect_equal(executable.name, "turned", "the program's name")
    expect(executable.client is subject.client, expected="its client", came=executable.client)
    expect_equal([d.id for d in executable.local_devices()], [subject.device.id], "its devices")


@case("execute", "programs run on the device that they were compiled for", contract=EXECUTE)
def programs_run_where_compiled(subject: Subject) -> None:
    for device in subject.devices[:4]:
        executable = compiled(subject, DOUBLE, [device])
        (made,) = executable.execute([put(subject, X, device)])
        expect(made.device is device, expected=device, came=made.device)
        expect_equal(np.asarray(made), 2 * X, f"on {device}")


@case("execute", "scalars, empty arrays and programs without results run", contract=EXECUTE)
def unusual_shapes_run(subject: Subject) -> None:
    for host in (np.float32(3), np.zeros((0, 4), np.float32), np.zeros((2, 0), np.int32)):
        array = np.asarray(host)
        text = program("%r = stablehlo.add %a, %a : $a", [array], [array])
        (made,) = compiled(subject, text).execute([put(subject, array, subject.device)])
        expect_equal(np.asarray(made), array + array, f"an array of shape {array.shape}")
    none = compiled(subject, program("", [X], []))
    expect_equal(none.execute([put(subject, X, subject.device)]), [], "no results")
    same = compiled(subject, program("%r = stablehlo.add %a, %b : $a", [X, X], [X]))
    buffer = put(subject, X, subject.device)
    (made,) = same.execute([buffer, buffer])
    expect_equal(np.asarray(made), 2 * X, "one buffer given twice")


@case("execute", "a result is the argument of the next call, without a wait", contract=EXECUTE)
def results_are_arguments(subject: Subject) -> None:
    add = compiled(subject, program("%r = stablehlo.add %a, %b : $a", [X, X], [X]))
    one, made = put(subject, np.ones_like(X), subject.device), put(subject, X, subject.device)
    for _ in range(100):
        (made,) = add.execute([made, one])
    expect_equal(np.asarray(made), X + 100, "after a hundred calls")


@case("execute", "arguments that do not fit are refused, and the next call runs",
      contract=REFUSED)  # fmt: skip
def wrong_arguments_are_refused(subject: Subject) -> None:
    executable = compiled(subject, DOUBLE)
    right = put(subject, X, subject.device)
    for wrong in (
        [],
        [right, right],
        [put(subject, X[:4], subject.device)],
        [put(subject, X.reshape(2, 4), subject.device)],
        [put(subject, X.astype(np.int32), subject.device)],
    ):
        with expect_error(InvalidArgumentError):
            executable.execute(wrong)
        _doubles(executable, right)
    values: Any = X, None, 3
    for value in values:
        with expect_error(InvalidArgumentError):
            executable.execute([value])
    if len(subject.devices) > 1:
        with expect_error(InvalidArgumentError):
            executable.execute([put(subject, X, subject.devices[1])])
    _doubles(executable, right)


@case(
    "execute",
    "a deleted argument is refused",
    contract=DELETED,
)
def deleted_arguments_are_refused(subject: Subject) -> None:
    executable = compiled(subject, DOUBLE)
    gone = put(subject, X, subject.device)
    gone.delete()
    with expect_error(DeletedError):
        executable.execute([gone])
    _doubles(executable, put(subject, X, subject.device))


@case(
    "execute",
    "an argument may be deleted as soon as the call has returned",
    contract="Buffer.delete: give the memory back as soon as no work in flight uses it",
)
def arguments_deleted_in_flight(subject: Subject) -> None:
    executable, matrix = slow(subject, 256, 10)
    for _ in range(3):
        buffer = put(subject, matrix, subject.device)
        (made,) = executable.execute([buffer])
        buffer.delete()
        put(subject, matrix + 9, subject.device).block_until_ready()
        expect_equal(np.asarray(made), matrix, "a result whose argument was deleted")


@case(
    "execute",
    "a deleted executable runs no more, and what it has begun ends well",
    contract="LoadedExecutable.delete: unload the program once no execution in flight uses it. "
    "Idempotent",
)
def deleted_executable_refuses(subject: Subject) -> None:
    executable, matrix = slow(subject, 256, 10)
    buffer = put(subject, matrix, subject.device)
    (made,) = executable.execute([buffer])
    expect_equal(executable.is_deleted(), False, "is_deleted() before")
    executable.delete()
    executable.delete()
    expect_equal(executable.is_deleted(), True, "is_deleted()")
    with expect_error(DeletedError):
        executable.execute([buffer])
    expect_equal(np.asarray(made), matrix, "what was begun before")


@case(
    "execute",
    "live executables are those that were not deleted",
    contract="Client.live_executables: the executables that are neither deleted nor collected, "
    "oldest first",
)
def live_executables_are_known(subject: Subject) -> None:
    client = takes_programs(subject)
    gc.collect()
    before = client.live_executables()
    first, second = compiled(subject, DOUBLE), compiled(subject, TURNED)
    expect_equal(client.live_executables() == [*before, first, second], True, "two more live")
    first.delete()
    expect_equal(client.live_executables() == [*before, second], True, "one more lives")
    del second
    gc.collect()
    expect_equal(len(client.live_executables()), len(before), "live executables at the end")


@case(
    "execute",
    "a program that cannot be compiled is a typed error, and the next one is compiled",
    contract="Client.compile_and_load; errors.DevrtError: root of every error",
)
def wrong_programs_are_refused(subject: Subject) -> None:
    client = takes_programs(subject)
    wrong_type = DOUBLE.replace("stablehlo.add %a, %a : tensor<8xf32>", "stablehlo.add %a, %a : i1")
    for text in (
        "",
        "func.func @main(",
        DOUBLE.replace("stablehlo.add", "stablehlo.no_such_operation"),
        DOUBLE.replace("@main", "@other"),
        wrong_type,
        b"ML\xefR but no bytecode",
        b"\x00\xff" * 40,
    ):
        with expect_error(DevrtError):
            client.compile_and_load(text)
    _doubles(compiled(subject, DOUBLE), put(subject, X, subject.device))


@case(
    "execute",
    "a token says when a program has ended, without results too",
    contract="LoadedExecutable.execute_with_token: the only way to wait for a program without "
    "results",
)
def tokens_tell_the_end(subject: Subject) -> None:
    none = compiled(subject, program("", [X], []))
    buffer = put(subject, X, subject.device)
    results, token = offered(lambda: none.execute_with_token([buffer]), "execute_with_token")
    expect_equal(results, [], "the results")
    expect(isinstance(token, ExecutionToken), expected="an ExecutionToken", came=type(token))
    token.block_until_ready()
    expect_equal(token.is_ready(), True, "is_ready() of a program that has ended")
    executable, matrix = slow(subject, 256, 10)
    (made,), token = executable.execute_with_token([put(subject, matrix, subject.device)])
    executable.delete()
    token.block_until_ready()
    expect_equal(made.is_ready(), True, "is_ready() of the result after the token")


@case("execute", "threads compile, call and delete at once",
      contract="Client: all members may be called from any thread", deadline=60)  # fmt: skip
def threads_run_programs(subject: Subject) -> None:
    shared = compiled(subject, DOUBLE)

    def work(number: int) -> None:
        own = compiled(subject, DOUBLE.replace("add", "multiply"))
        x = np.full(8, number + 2, np.float32)
        for _ in range(20):
            buffer = put(subject, x, subject.device)
            (one,), (two,) = own.execute([buffer]), shared.execute([buffer])
        expect_equal(np.asarray(one), x * x, "a thread's own program")
        expect_equal(np.asarray(two), x + x, "the program of all threads")
        own.delete()

    together(work, 6, 50)


@case(
    "execute",
    "programs of a closed client are refused",
    contract="errors.ClosedError: a client, or a handle that belongs to it, was used after the "
    "client was closed",
)
def closed_client_runs_nothing(subject: Subject) -> None:
    takes_programs(subject)
    client = subject.make_client()
    executable = client.compile_and_load(DOUBLE)
    (made,) = executable.execute([client.buffer_from_pyval(X)])
    buffer, view = client.buffer_from_pyval(X), np.asarray(made)
    client.close()
    for call in (
        lambda: client.compile_and_load(DOUBLE),
        lambda: executable.execute([buffer]),
    ):
        with expect_error(ClosedError):
            call()
    expect_equal(view, 2 * X, "a result that was read before")


@case("execute", "a process ends well with programs running",
      contract="Client.close: wait for the work in flight and give all memory back")  # fmt: skip
def exit_with_programs_running(subject: Subject) -> None:
    takes_programs(subject)
    code = """
        from devrt.testing.conformance.programs import slow
        executable, matrix = slow(subject, 256, 20)
        argument = client.buffer_from_pyval(matrix, device)
        results = [executable.execute([argument]) for _ in range(20)]
        chain = argument
        for _ in range(5): (chain,) = executable.execute([chain])
        print("end", flush=True)
        sys.exit(0)
    """
    expect_printed(subject, code, "end\n")


@case(
    "execute",
    "an executable that was serialised runs again, here and in another process",
    contract="Client.deserialize_executable: load what serialize_executable gave, of this or "
    "another process",
    deadline=60,
)
def serialised_executables_run(subject: Subject) -> None:
    client = takes_programs(subject)
    executable = compiled(subject, DOUBLE)
    data = offered(lambda: client.serialize_executable(executable), "serialize_executable")
    expect(bool(data) and isinstance(data, bytes), expected="bytes", came=type(data))
    again = offered(lambda: client.deserialize_executable(data), "deserialize_executable")
    _doubles(again, put(subject, X, subject.device))
    executable.delete()
    _doubles(again, put(subject, X, subject.device))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "executable")  # as an argument it may be too long
        file.write_bytes(data)
        code = f"""
            executable = client.deserialize_executable(open({str(file)!r}, "rb").read())
            (made,) = executable.execute([client.buffer_from_pyval(np.arange(8, dtype=np.float32))])
            print(np.asarray(made).tolist())
        """
        expect_printed(subject, code, f"{(2 * X).tolist()}\n")


@case(
    "execute",
    "bytes that are no executable are a typed error, and end nothing",
    contract="Client.deserialize_executable; errors.DevrtError: root of every error",
    alone=True,
)
def broken_executables_are_refused(subject: Subject) -> None:
    client = takes_programs(subject)
    executable = compiled(subject, DOUBLE)
    data = offered(lambda: client.serialize_executable(executable), "serialize_executable")
    offered(lambda: client.deserialize_executable(data), "deserialize_executable")
    broken = bytearray(data)
    broken[len(broken) // 2] ^= 0xFF
    for wrong in (b"", b"no executable", data[: len(data) // 2], bytes(broken)):
        with expect_error(DevrtError):
            client.deserialize_executable(wrong)
    _doubles(executable, put(subject, X, subject.device))


@case(
    "execute",
    "equal programs have equal fingerprints, and different ones do not",
    contract="Executable.fingerprint: bytes that are equal for equal programs and equal options",
)
def fingerprints_tell_programs_apart(subject: Subject) -> None:
    same = [compiled(subject, DOUBLE) for _ in range(2)]
    other = compiled(subject, TURNED)
    first = offered(lambda: same[0].fingerprint, "fingerprint")
    expect_equal(type(first), bytes, "the type of a fingerprint")
    expect_equal(same[1].fingerprint, first, "the fingerprint of the same program")
    expect(other.fingerprint != first, expected="another fingerprint", came="the same one")
