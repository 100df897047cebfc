"""The header of custom calls is the ABI: offsets and values are those that jaxlib's wheel ships."""

import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

import devrt.native

OURS = Path(devrt.native.include_dir()) / "devrt" / "pjrt" / "ffi.h"
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_STRUCT = re.compile(r"struct (XLA_FFI_\w+) \{(.*?)\n\}", re.S)
_VALUE = re.compile(r"\b(XLA_FFI_(?!VERSION_M|API_)[A-Za-z]+_\w+)\b(?=\s*(?:=|,|\}))")
_LEAST = {"structures": 19, "fields": 96, "values": 60}


def theirs():
    """Return jaxlib's header, of this Python or of the one that PEER_PYTHON names; or skip."""
    place = "xla/ffi/api/c_api.h"
    try:
        header = metadata.distribution("jaxlib").locate_file(f"jaxlib/include/{place}")
        if Path(header).exists():
            return Path(header)
    except metadata.PackageNotFoundError:
        pass
    if peer := os.environ.get("PEER_PYTHON"):
        code = "import jaxlib; print(jaxlib.__path__[0])"
        run = subprocess.run([peer, "-c", code], capture_output=True, text=True, check=True)
        return Path(run.stdout.strip(), "include", place)
    pytest.skip("needs jaxlib, for its header (or PEER_PYTHON, a Python that has it)")


def fields(header):
    """Return the fields of each structure of a header, by name."""
    text = _COMMENT.sub("", header.read_text())
    found = {}
    for name, body in _STRUCT.findall(text):
        body = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\(\s*(\w+)\s*\)", r"void* \1", body)
        body = re.sub(r"\(\*\s*(\w+)\)\s*\([^;]*\)", r"\1", body)
        found[name] = set(re.findall(r"(\w+)\s*(?:\[[^\]]*\])?;", body))
    return found


def values(header):
    return set(_VALUE.findall(_COMMENT.sub("", header.read_text())))


def measured(header, wanted, names, folder):
    """Return what a C compiler makes of a header: offsets, sizes and values, by expression."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    lines = [
        f'printf("{s}.{f} %zu %zu\\n", offsetof({s}, {f}), sizeof((({s}*)0)->{f}));'
        for s, f in wanted
    ]
    lines += [f'printf("{name} %d %d\\n", (int){name}, 0);' for name in names]
    source = folder / "abi.c"
    source.write_text(
        f'#include <stdio.h>\n#include <stddef.h>\n#include "{header}"\n'
        f"int main(void) {{ {' '.join(lines)} return 0; }}\n"
    )
    program = folder / "abi"
    subprocess.run(
        [compiler, "-w", f"-I{devrt.native.include_dir()}", "-o", program, source],
        check=True,
        timeout=60,
    )
    run = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    return dict(line.split(" ", 1) for line in run.stdout.splitlines())


def test_the_layout_is_that_of_jaxlib_s_header(tmp_path):
    other = theirs()
    mine, others = fields(OURS), fields(other)
    wanted = [(s, f) for s in mine if s in others for f in sorted(mine[s] & others[s])]
    names = sorted(values(OURS) & values(other))
    assert len({s for s, _ in wanted}) >= _LEAST["structures"]
    assert len(wanted) >= _LEAST["fields"]
    assert len(names) >= _LEAST["values"]
    here = measured(OURS, wanted, names, tmp_path)
    there = measured(other, wanted, names, tmp_path)
    assert here == there
