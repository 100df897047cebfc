"""Functions of Python and of C that compiled programs call, run by XLA's CPU plugin."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import devrt_pjrt
from devrt import errors
from devrt_pjrt._native import ffi

_numbers = itertools.count()

CALL = """
module @calls {{
  func.func @main(%a: tensor<{arg}>) -> ({results}) {{
    %0:{count} = stablehlo.custom_call @{name}(%a) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{{attributes}}}
    }} : (tensor<{arg}>) -> ({results})
    return {values} : {results}
  }}
}}
"""


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
    return f"test_call_{next(_numbers)}"


def run(client, text, value):
    executable = client.compile_and_load(text)
    return [np.asarray(out) for out in executable.execute([client.buffer_from_pyval(value)])]


X = np.arange(8, dtype=np.float32)


def test_a_function_is_called_with_arguments_and_attributes(xla_cpu, name):
    seen = {}

    def call(a, **attributes):
        seen.update(attributes, address=a.ctypes.data, writeable=a.flags.writeable)
        return a * np.float32(attributes["scale"])

    xla_cpu.register_custom_call(name, call)
    attributes = (
        'scale = 2.5 : f32, text = "hé", n = -3 : i64, yes = true, '
        "v = array<i32: 1, 2>, none = array<f64>, d = {q = 1 : i8}"
    )
    (made,) = run(xla_cpu, program(name, attributes=attributes), X)
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
def test_dtypes_and_shapes_go_both_ways(xla_cpu, name, kind, dtype):
    value = (np.arange(6) % 2).astype(dtype).reshape(2, 3)
    xla_cpu.register_custom_call(
        name, lambda a: (a.T, a.sum(dtype=a.dtype) if dtype != "?" else a[0, 1])
    )
    transposed, scalar = run(xla_cpu, program(name, f"2x3x{kind}", (f"3x2x{kind}", kind)), value)
    np.testing.assert_array_equal(transposed, value.T)
    assert transposed.dtype == value.dtype
    assert scalar == (value.sum() if dtype != "?" else value[0, 1])


def test_empty_arrays(xla_cpu, name):
    xla_cpu.register_custom_call(name, lambda a: a.reshape(3, 0))
    (made,) = run(xla_cpu, program(name, "0x3xf32", ("3x0xf32",)), np.zeros((0, 3), np.float32))
    assert made.shape == (3, 0)


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
    ],
)
def test_what_a_function_raises_is_the_results_error(xla_cpu, name, raised, kind, expected):
    def call(a):
        raise raised

    xla_cpu.register_custom_call(name, call)
    with pytest.raises(kind, match=expected) as caught:
        run(xla_cpu, program(name), X)
    assert name in caught.value.message
    assert os.path.basename(__file__) in caught.value.message


@pytest.fixture
def interrupts():
    """Let interrupts raise, which a shell has ignored in what it runs in the background."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_reaches_the_program(xla_cpu, name):
    def call(a):
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        return a

    xla_cpu.register_custom_call(name, call)
    executable, value = xla_cpu.compile_and_load(program(name)), xla_cpu.buffer_from_pyval(X)
    with pytest.raises(KeyboardInterrupt) as caught:
        executable.execute([value])
    assert isinstance(caught.value.__cause__, errors.DevrtError)
    xla_cpu.register_custom_call(name, lambda a: a + 1)
    assert np.asarray(executable.execute([value])[0])[0] == 1


@pytest.mark.parametrize("address", [3, 4096, (1 << 47) - 1, (1 << 64) - 1, "data"])
def test_an_address_without_code_is_refused(xla_cpu, name, address):
    address = X.ctypes.data if address == "data" else address
    for function in (address, ctypes.c_void_p(address), ffi.cast("void *", address)):
        with pytest.raises(errors.InvalidArgumentError, match="must be that of a function"):
            xla_cpu.register_custom_call(name, function)


@pytest.mark.parametrize("made", [X[:3], X.astype("f8"), (X, X), None, [], "text"])
def test_results_that_do_not_fit_are_refused(xla_cpu, name, made):
    xla_cpu.register_custom_call(name, lambda a: made)
    with pytest.raises(errors.InvalidArgumentError, match="must"):
        run(xla_cpu, program(name), X)


def test_an_argument_is_the_functions_own(xla_cpu, name):
    kept = []

    def call(a):
        kept.append(a)
        a[:] += 1
        return a

    xla_cpu.register_custom_call(name, call)
    executable = xla_cpu.compile_and_load(program(name))
    source = xla_cpu.buffer_from_pyval(X)
    for _ in range(50):
        executable.execute([source])[0].block_until_ready()
    assert all((a == X + 1).all() for a in kept)
    assert (np.asarray(source) == X).all()


def test_one_function_replaces_another(xla_cpu, name):
    xla_cpu.register_custom_call(name, lambda a: a + 1)
    executable = xla_cpu.compile_and_load(program(name))
    xla_cpu.register_custom_call(name, lambda a: a + 2)
    assert np.asarray(executable.execute([xla_cpu.buffer_from_pyval(X)])[0])[0] == 2
    with pytest.raises(errors.PluginError, match="cannot forget"):
        xla_cpu.register_custom_call(name, print, kind="device")


def test_a_handler_of_kind_device_gets_addresses(xla_cpu, name):
    seen = []

    def call(frame):
        seen.append(frame)
        (a,), (b,) = frame.arguments, frame.results
        ctypes.memmove(b.address, a.address, b.nbytes)

    xla_cpu.register_custom_call(name, call, kind="device")
    (made,) = run(xla_cpu, program(name, attributes="n = 1 : i32"), X)
    np.testing.assert_array_equal(made, X)
    (frame,) = seen
    assert frame.attributes == {"n": 1}
    assert frame.stream == 0
    assert frame.arguments[0].shape == (8,)
    assert frame.arguments[0].dtype == np.float32


NATIVE = """
#include "devrt/pjrt/c_api/pjrt_c_api.h"
XLA_FFI_Error* thrice(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* at = frame->extension_start; at != 0; at = at->next) {
    if (at->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)at)->metadata;
    metadata->api_version.major_version = frame->api->api_version.major_version;
    metadata->api_version.minor_version = frame->api->api_version.minor_version;
    return 0;
  }
  const XLA_FFI_Buffer* in = frame->args.args[0];
  const XLA_FFI_Buffer* out = frame->rets.rets[0];
  for (int i = 0; i < 8; ++i) ((float*)out->data)[i] = 3 * ((float*)in->data)[i];
  return 0;
}
"""


@pytest.fixture(scope="module")
def thrice(tmp_path_factory, compiler, include):
    folder = tmp_path_factory.mktemp("thrice")
    (folder / "thrice.c").write_text("#include <stddef.h>\n#include <stdint.h>\n" + NATIVE)
    command = [compiler, "-shared", "-fPIC", f"-I{include}", str(folder / "thrice.c")]
    subprocess.run([*command, "-o", str(folder / "thrice.so")], check=True)
    return ctypes.CDLL(str(folder / "thrice.so")).thrice


def capsule_of(function):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(ctypes.cast(function, ctypes.c_void_p).value, None, None)


FORMS = {
    "ctypes": lambda f: f,
    "address": lambda f: ctypes.cast(f, ctypes.c_void_p).value,
    "cffi": lambda f: ffi.cast("void *", ctypes.cast(f, ctypes.c_void_p).value),
    "capsule": capsule_of,
}


@pytest.mark.parametrize("form", FORMS)
def test_native_code_is_called(xla_cpu, name, thrice, form):
    xla_cpu.register_custom_call(name, FORMS[form](thrice))
    (made,) = run(xla_cpu, program(name), X)
    np.testing.assert_array_equal(made, X * 3)
    with pytest.raises(errors.PluginError, match="registered with"):
        xla_cpu.register_custom_call(name, print)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", print), "a string"),
        ((3, print), "a string"),
        (("x", None), "a callable"),
        (("x", "text"), "a callable"),
        (("x", 0), "that of a function"),
        (("x", -1), "that of a function"),
        (("x", True), "a callable"),
        (("x", ctypes.c_void_p(None)), "that of a function"),
        (("x", print, "both"), "'host' or 'device'"),
    ],
)
def test_what_is_no_custom_call_is_refused(xla_cpu, arguments, message):
    name, function, *kind = arguments
    with pytest.raises(errors.InvalidArgumentError, match=message):
        xla_cpu.register_custom_call(name, function, **({"kind": kind[0]} if kind else {}))


def test_a_name_that_nothing_is_registered_under_is_an_error(xla_cpu, name):
    with pytest.raises(errors.DevrtError, match=name):
        run(xla_cpu, program(name), X)


def test_a_plugin_without_the_extension_says_so(fake):
    client = devrt_pjrt.make_client(devrt_pjrt.library_for("fake_calls", fake), "fake_calls")
    with pytest.raises(errors.UnimplementedError, match="no FFI extension"):
        client.register_custom_call("x", print)
    client.close()
    with pytest.raises(errors.ClosedError):
        client.register_custom_call("x", print)


def test_threads_and_devices_call_at_once(xla_cpu, name):
    xla_cpu.register_custom_call(name, lambda a: a * 2)
    one = [xla_cpu.compile_and_load(program(name), [d]) for d in xla_cpu.devices()]
    wrong = []

    def work(at):
        device = xla_cpu.devices()[at]
        for step in range(100):
            value = np.full(8, step, np.float32)
            (made,) = one[at].execute([xla_cpu.buffer_from_pyval(value, device)])
            if not (np.asarray(made) == 2 * step).all():
                wrong.append((at, step))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


HEAD = """
import os, sys, threading, time
import numpy as np
import devrt_pjrt as pjrt
from devrt import errors
client = pjrt.make_client(pjrt.library_for("c", sys.argv[1]), "c", {"cpu_device_count": 2})
X = client.buffer_from_pyval(np.zeros(8, np.float32))
"""


def child(library, text, code):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code, library, text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_the_interpreter_ends_while_a_function_runs(xla_cpu_library, name):
    output = child(
        xla_cpu_library,
        program(name),
        f"""
started = threading.Event()
def call(a):
    started.set(); time.sleep(0.3); return a
client.register_custom_call({name!r}, call)
program = client.compile_and_load(sys.argv[2])
def forever():
    while True: program.execute([X])
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
started.wait(30)
print("end", flush=True)
""",
    )
    assert output == ["end"]


def test_what_a_function_holds_ends_with_the_interpreter(xla_cpu_library, name):
    pytest.importorskip("devrt_cpu")  # whose module tells of objects that outlive it
    output = child(
        xla_cpu_library,
        program(name),
        f"""
import os, devrt
class Held:
    def __del__(self, write=os.write): write(1, b"gone")
held, cpu = Held(), devrt.get_backend("cpu")
client.register_custom_call({name!r}, lambda a, held=held: a if cpu else held)
client.compile_and_load(sys.argv[2]).execute([X])
del held
""",
    )
    assert output == ["gone"]


@pytest.mark.parametrize("address", [0, 3, 4095, -1, 1 << 64])
def test_an_address_that_can_hold_no_function_is_refused(xla_cpu, name, address):
    with pytest.raises(errors.InvalidArgumentError, match="address"):
        xla_cpu.register_custom_call(name, address)


def test_there_is_an_end_of_names(xla_cpu_library, name):
    output = child(
        xla_cpu_library,
        program(name),
        """
count = 0
try:
    while True:
        client.register_custom_call(f"call_{count}", lambda a: a); count += 1
except errors.UnimplementedError as error:
    print(count, "which is the most" in str(error))
""",
    )
    assert output == ["256 True"]
