"""What tests of several packages share: Python in its own process, threads, C, both clients."""

import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

FOLDER = str(Path(__file__).parent)


def run_python(*arguments, status=0, timeout=300, clean=(), **environ):
    """Run the interpreter; it must end with ``status``, where that is not None.

    Its environment is this one without variables that begin with one of ``clean``, and with
    ``environ``. It can import this module.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(tuple(clean))}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [FOLDER, kept.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=kept | {key: str(value) for key, value in environ.items()},
        timeout=timeout,
        check=False,
    )
    assert status in (None, done.returncode), f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def python(code, *arguments, options=("-W", "error"), **how):
    """Run a program, indented or not, with ``run_python``; warnings are errors in it."""
    return run_python(*options, "-c", textwrap.dedent(code), *arguments, **how)


def seconds_run(process):
    """Return the seconds of processor time that all threads of a process have used, by its id."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def together(work, arguments=range(4), timeout=300):
    """Call a function with each argument, each in a thread; raise what one of them raised."""
    failures = []

    def guarded(argument):
        try:
            work(argument)
        except BaseException as error:  # noqa: BLE001  raised by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(a,), daemon=True) for a in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    assert not any(thread.is_alive() for thread in threads), f"not done after {timeout} s"
    if failures:
        raise failures[0]


def sample(rows, key, mark):
    """Return the parameters of a test, by id: of each key the first row, the others with a mark."""
    seen, params = set(), []
    for name, row in rows.items():
        params.append(pytest.param(row, id=name, marks=[mark] if key(row) in seen else []))
        seen.add(key(row))
    return params


def c_compiler():
    """Return the C compiler's command; without one the test is skipped."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    return found or pytest.skip("there is no C compiler")


def shared_library(target, source, *flags):
    """Compile C, text or a file, into a shared library; return its path."""
    if not isinstance(source, Path):
        text, source = source, Path(target).with_suffix(".c")
        source.write_text(text, encoding="utf-8")
    command = [c_compiler(), "-shared", "-fPIC", *flags, str(source), "-o", str(target)]
    subprocess.run(command, cwd=source.parent, check=True, capture_output=True)
    return Path(target)


def module_file(module, name):
    """Return a file of an installed package, or None."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    return next((str(Path(f, name)) for f in folders or () if Path(f, name).is_file()), None)


def xla_cpu_library():
    """Return the path of the tests' compiler for the CPU; without one the test is skipped."""
    choice = pytest.importorskip("devrt_cpu._library", reason="needs devrt-cpu")
    if not os.environ.get(choice.VARIABLE) and not any(choice.installed()):
        pytest.skip("no compiler for the CPU is installed")
    return choice.choose().path


def make_client(kind, devices=1, compiles=True):
    """Make a client: ``cpu``, or ``loader`` of the library that compiles for it."""
    if kind == "cpu":
        pytest.importorskip("devrt_cpu")
        from devrt_cpu import make_cpu_client

        if compiles:
            xla_cpu_library()
        return make_cpu_client(num_devices=devices)
    pjrt = pytest.importorskip("devrt_pjrt")
    library = pjrt.library_for("xla_cpu_tests", xla_cpu_library())
    return pjrt.make_client(library, "xla_cpu_tests", {"cpu_device_count": devices})


def aligned(size, dtype=np.float32, offset=0):
    """Return 0, 1, 2 ... at an address that is a multiple of 64 plus ``offset``: memory to lend."""
    count = size * np.dtype(dtype).itemsize
    raw = np.zeros(count + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    array = raw[start : start + count].view(dtype)
    array[:] = np.arange(size)
    return array


def double(kind="8xf32", alias=""):
    """Return a program that adds an array to itself; ``alias`` are its parameter's attributes."""
    return (
        f"func.func @main(%a: tensor<{kind}>{alias}) -> tensor<{kind}> {{\n"
        f"  %0 = stablehlo.add %a, %a : tensor<{kind}>\n  return %0 : tensor<{kind}> }}"
    )


def square(size=256, products=2):
    """Return a program that multiplies a matrix by itself: slower than its call."""
    kind = f"tensor<{size}x{size}xf32>"
    steps = "\n".join(
        f"  %{i} = stablehlo.dot %{i - 1 if i else 'a'}, %a : ({kind}, {kind}) -> {kind}"
        for i in range(products)
    )
    return (
        f"func.func @main(%a: {kind}) -> {kind} {{\n{steps}\n  return %{products - 1} : {kind} }}"
    )


def write(root, path, content=""):
    """Write a file below a folder, with the folders that it lies in."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def add_pci(root, vendor, class_code):
    """Put a card on the PCI bus of a machine whose files lie below ``root``."""
    write(root, "sys/bus/pci/devices/0000:01:00.0/vendor", vendor)
    write(root, "sys/bus/pci/devices/0000:01:00.0/class", class_code)
