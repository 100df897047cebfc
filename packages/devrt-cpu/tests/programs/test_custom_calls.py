"""Functions of Python and of C that the CPU client's programs call."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import devrt
import devrt.native
from devrt import errors, xla_client
from devrt.contract import DeviceCall
from devrt_cpu import make_cpu_client

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

_numbers = itertools.count()

CALL = """module @calls {{
  func.func @main(%a: tensor<{arg}>) -> ({results}) {{
    %0:{count} = stablehlo.custom_call @{name}(%a) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{{attributes}}}
    }} : (tensor<{arg}>) -> ({results})
    return {values} : {results}
  }}
}}"""

X = np.arange(8, dtype=np.float32)


def program(name, arg="8xf32", results=("8xf32",), attributes=""):
    kinds = ", ".join(f"tensor<{result}>" for result in results)
    values = ", ".join(f"%0#{at}" for at in range(len(results)))
    return CALL.format(
        name=name,
        arg=arg,
        results=kinds,
        count=len(results),
        values=values,
        attributes=attributes,
    )


@pytest.fixture
def name():
    """Return a name that nothing is registered under: XLA forgets none."""
    return f"cpu_test_call_{next(_numbers)}"


def run(client, text, value):
    executable = client.compile_and_load(text)
    return [np.asarray(out) for out in executable.execute([client.buffer_from_pyval(value)])]


def test_a_function_is_called_with_arguments_and_attributes(client, name):
    seen = {}

    def call(a, **attributes):
        seen.update(attributes, writeable=a.flags.writeable)
        return a * np.float32(attributes["scale"])

    client.register_custom_call(name, call)
    attributes = (
        'scale = 2.5 : f32, text = "hé", n = -3 : i64, yes = true, '
        "v = array<i32: 1, 2>, none = array<f64>, d = {q = 1 : i8}"
    )
    (made,) = run(client, program(name, attributes=attributes), X)
    np.testing.assert_array_equal(made, X * 2.5)
    assert (seen["scale"], seen["text"], seen["n"], seen["yes"]) == (2.5, "hé", -3, True)
    assert seen["d"] == {"q": 1}
    assert seen["v"].dtype == np.int32
    assert seen["v"].tolist() == [1, 2]
    assert seen["none"].shape == (0,)
    assert seen["writeable"]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("i1", "?"), ("i8", "i1"), ("ui8", "u1"), ("i16", "i2"), ("i64", "i8"), ("f16", "f2"),
     ("f64", "f8"), ("complex<f32>", "c8"), ("complex<f64>", "c16"), ("ui32", "u4")],
)  # fmt: skip
def test_dtypes_and_shapes_go_both_ways(client, name, kind, dtype):
    value = (np.arange(6) % 2).astype(dtype).reshape(2, 3)
    client.register_custom_call(
        name, lambda a: (a.T, a.sum(dtype=a.dtype) if dtype != "?" else a[0, 1])
    )
    transposed, scalar = run(client, program(name, f"2x3x{kind}", (f"3x2x{kind}", kind)), value)
    np.testing.assert_array_equal(transposed, value.T)
    assert transposed.dtype == value.dtype
    assert scalar == (value.sum() if dtype != "?" else value[0, 1])


@pytest.mark.parametrize(
    ("raised", "kind", "expected"),
    [
        (ValueError("no good"), errors.InvalidArgumentError, "raised ValueError: no good"),
        (MemoryError("too big"), errors.OutOfMemoryError, "MemoryError: too big"),
        (TimeoutError("late"), errors.DeadlineExceededError, "late"),
        (NotImplementedError("later"), errors.UnimplementedError, "later"),
        (errors.DeviceLostError("gone"), errors.DevrtError, "DeviceLostError: gone"),
        (ZeroDivisionError("zero"), errors.InternalError, "zero"),
        (SystemExit("stop"), errors.InternalError, "stop"),
        (ValueError("nul \0 and \udcff"), errors.InvalidArgumentError, "nul"),
    ],
)
def test_what_a_function_raises_is_the_results_error(client, name, raised, kind, expected):
    def call(a):
        raise raised

    client.register_custom_call(name, call)
    with pytest.raises(kind, match=expected) as caught:
        run(client, program(name), X)
    assert name in caught.value.message
    assert os.path.basename(__file__) in caught.value.message


@pytest.mark.parametrize("made", [X[:3], X.astype("f8"), (X, X), None, [], "text"])
def test_results_that_do_not_fit_are_refused(client, name, made):
    client.register_custom_call(name, lambda a: made)
    with pytest.raises(errors.InvalidArgumentError, match="must"):
        run(client, program(name), X)


@pytest.fixture
def interrupts():
    """Let interrupts raise, which a shell has ignored in what it runs in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_reaches_the_program(name):
    def call(a):
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        else:
            os.kill(os.getpid(), signal.SIGINT)
        return a

    with make_cpu_client() as client:
        client.register_custom_call(name, call)
        executable, value = client.compile_and_load(program(name)), client.buffer_from_pyval(X)
        with pytest.raises((KeyboardInterrupt, errors.DevrtError)):  # noqa: PT012  whichever is first
            executable.execute([value])[0].block_until_ready()
            for _ in range(1000):
                threading.Event().wait(0.01)


def test_an_argument_is_the_functions_own(client, name):
    kept = []

    def call(a):
        kept.append(a)
        a[:] += 1
        return a

    client.register_custom_call(name, call)
    executable = client.compile_and_load(program(name))
    source = client.buffer_from_pyval(X)
    for _ in range(50):
        executable.execute([source])[0].block_until_ready()
    assert all((a == X + 1).all() for a in kept)
    assert (np.asarray(source) == X).all()


def test_one_function_replaces_another_and_nothing_else_does(client, name):
    client.register_custom_call(name, lambda a: a + 1)
    executable = client.compile_and_load(program(name))
    client.register_custom_call(name, lambda a: a + 2)
    assert np.asarray(executable.execute([client.buffer_from_pyval(X)])[0])[0] == 2
    with pytest.raises(errors.PluginError, match="cannot forget"):
        client.register_custom_call(name, print, kind="device")
    with pytest.raises(errors.PluginError, match="cannot forget"):
        client.register_custom_call("lapack_spotrf_ffi", print)


def test_a_handler_of_kind_device_gets_addresses(client, name):
    seen = []

    def call(frame):
        seen.append(frame)
        (a,), (b,) = frame.arguments, frame.results
        ctypes.memmove(b.address, a.address, b.nbytes)

    client.register_custom_call(name, call, kind="device")
    (made,) = run(client, program(name, attributes="n = 1 : i32"), X)
    np.testing.assert_array_equal(made, X)
    (frame,) = seen
    assert isinstance(frame, DeviceCall)
    assert (frame.attributes, frame.stream) == ({"n": 1}, 0)
    assert (frame.arguments[0].shape, frame.arguments[0].dtype) == ((8,), np.float32)


NATIVE = """
#include <stddef.h>
#include <stdint.h>
#include "devrt/pjrt/c_api/pjrt_c_api.h"
XLA_FFI_Error* thrice(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* at = frame->extension_start; at != 0; at = at->next) {
    if (at->type != XLA_FFI_Extension_Metadata) continue;
    ((XLA_FFI_Metadata_Extension*)at)->metadata->api_version = frame->api->api_version;
    return 0;
  }
  const XLA_FFI_Buffer* in = frame->args.args[0];
  const XLA_FFI_Buffer* out = frame->rets.rets[0];
  if (((float*)in->data)[0] < 0) {
    XLA_FFI_Error_Create_Args args = {sizeof args, 0, "it is negative",
                                      XLA_FFI_Error_Code_OUT_OF_RANGE};
    return frame->api->XLA_FFI_Error_Create(&args);
  }
  for (int i = 0; i < in->dims[0]; ++i) ((float*)out->data)[i] = 3 * ((float*)in->data)[i];
  return 0;
}
"""


@pytest.fixture(scope="module")
def thrice(tmp_path_factory):
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("thrice")
    (folder / "thrice.c").write_text(NATIVE)
    include = f"-I{devrt.native.include_dir()}"
    command = [compiler, "-shared", "-fPIC", include, str(folder / "thrice.c")]
    subprocess.run([*command, "-o", str(folder / "thrice.so")], check=True)
    return ctypes.CDLL(str(folder / "thrice.so")).thrice


def capsule_of(function):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(ctypes.cast(function, ctypes.c_void_p).value, None, None)


FORMS = {
    "ctypes": lambda f: f,
    "address": lambda f: ctypes.cast(f, ctypes.c_void_p).value,
    "capsule": capsule_of,
}


@pytest.mark.parametrize("form", FORMS)
def test_native_code_is_called(client, name, thrice, form):
    client.register_custom_call(name, FORMS[form](thrice))
    (made,) = run(client, program(name), X)
    np.testing.assert_array_equal(made, X * 3)
    with pytest.raises(errors.DevrtError, match="it is negative"):
        run(client, program(name), X - 1)
    with pytest.raises(errors.PluginError, match="registered with"):
        client.register_custom_call(name, print)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", print), "a string"),
        ((3, print), "a string"),
        (("x", None), "a callable"),
        (("x", "text"), "a callable"),
        (("x", 0), "that of a function"),
        (("x", -1), "that of a function"),
        (("x", 4096), "that of a function"),
        (("x", True), "a callable"),
        (("x", ctypes.c_void_p(None)), "that of a function"),
        (("x", print, "both"), "'host' or 'device'"),
    ],
)
def test_what_is_no_custom_call_is_refused(client, arguments, message):
    name, function, *kind = arguments
    with pytest.raises(errors.InvalidArgumentError, match=message):
        client.register_custom_call(name, function, **({"kind": kind[0]} if kind else {}))


def test_a_name_that_nothing_answers_is_refused_and_says_how_to_register(client, name):
    with pytest.raises(errors.UnimplementedError, match=f"{name}.*register_custom_call"):
        client.compile_and_load(program(name))


def test_a_closed_client_registers_nothing(name):
    client = make_cpu_client()
    client.close()
    with pytest.raises(errors.ClosedError):
        client.register_custom_call(name, print)


def test_sixteen_threads_and_several_devices_call_at_once(name):
    with make_cpu_client(num_devices=8) as client, ThreadPoolExecutor(16) as pool:
        client.register_custom_call(name, lambda a: a * 2)
        devices = client.devices()
        one = [client.compile_and_load(program(name), [d]) for d in devices]
        short = client.compile_and_load(
            "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {"
            " %0 = stablehlo.add %a, %a : tensor<8xf32> return %0 : tensor<8xf32> }"
        )

        def work(at):
            for step in range(50):
                value = np.full(8, step, np.float32)
                (made,) = one[at % 8].execute([client.buffer_from_pyval(value, devices[at % 8])])
                (other,) = short.execute([client.buffer_from_pyval(value)])
                assert (np.asarray(made) == 2 * step).all()
                assert (np.asarray(other) == 2 * step).all()
            return at

        assert sorted(pool.map(work, range(16))) == list(range(16))


MEETING = """module attributes {{mhlo.num_partitions = 4 : i32}} {{
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
      -> tensor<8xf32> {{
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}]>]
        out_shardings=[<@mesh, [{{}}]>] manual_axes={{"x"}} (%b: tensor<2xf32>) {{
      %1 = stablehlo.custom_call @{name}(%b) {{api_version = 4 : i32, has_side_effect = true}}
        : (tensor<2xf32>) -> tensor<2xf32>
      %2 = "stablehlo.all_gather"(%1) <{{all_gather_dim = 0 : i64,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}}>
        : (tensor<2xf32>) -> tensor<8xf32>
      sdy.return %2 : tensor<8xf32>
    }} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}"""


def meet(client, name, value):
    executable = client.compile_and_load(MEETING.format(name=name))
    assert executable.is_collective
    shards = [
        client.buffer_from_pyval(value[2 * i : 2 * i + 2], d)
        for i, d in enumerate(client.devices())
    ]
    return executable.execute_sharded([shards])[0]


@pytest.mark.parametrize("form", ["python", "native"])
def test_a_shard_that_fails_fails_its_call_and_not_the_process(name, thrice, form):
    """The others wait to meet it; XLA would end the process after a minute of that."""

    def call(a):
        if (a < 0).any():
            raise OverflowError("it is negative")
        return a * 3

    with make_cpu_client(num_devices=4) as client:
        client.register_custom_call(name, call if form == "python" else thrice)
        for _ in range(3):
            value = X.copy()
            for result in meet(client, name, value):
                np.testing.assert_array_equal(np.asarray(result), value * 3)
            value[6:] = -1
            failed = meet(client, name, value)
            for result in failed:
                with pytest.raises(errors.DevrtError, match="it is negative"):
                    result.block_until_ready()


def test_a_failed_result_poisons_what_is_made_of_it(name):
    def call(a):
        raise ValueError("no")

    with make_cpu_client(num_devices=4) as client:
        client.register_custom_call(name, call)
        failed = meet(client, name, X)
        double = client.compile_and_load(
            "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {"
            " %0 = stablehlo.add %a, %a : tensor<8xf32> return %0 : tensor<8xf32> }"
        )
        with pytest.raises(errors.InvalidArgumentError, match="no"):
            np.asarray(double.execute([failed[0]])[0])


def test_jaxlibs_name_registers_with_the_default_runtimes_client(name):
    register = xla_client.register_custom_call_target
    register(name, {"execute": lambda a: a + 5}, platform="cpu")
    (made,) = run(devrt.get_backend("cpu"), program(name), X)
    np.testing.assert_array_equal(made, X + 5)
    with pytest.raises(errors.UnimplementedError, match="api_version 0"):
        register(name, print, api_version=0)
    with pytest.raises(errors.UnimplementedError, match="stages prepare"):
        register(name, {"prepare": print, "execute": print})
    with pytest.raises(errors.InvalidTypeError, match="a callable"):
        register(name, {})
