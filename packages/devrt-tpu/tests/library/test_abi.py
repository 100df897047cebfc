"""The header is the ABI: sizes, offsets and values are those of headers that wheels ship."""

import itertools
import json
import re
import subprocess
from pathlib import Path

import pytest

from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.since import FUNCTIONS, MINIMUM_MINOR, TYPES
from support import module_file

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_STRUCT = re.compile(r"struct (PJRT_\w+) \{(.*?)\n\}", re.S)


def is_known(kind):
    try:
        return ffi.sizeof(kind) > 0
    except ffi.error:  # opaque, whose fields cffi cannot be requested
        return False


def structures():
    """Return the structures that the native module was compiled with, by name."""
    kinds = {n: ffi.typeof(n) for n in ffi.list_types()[0] if n.startswith("PJRT_")}
    return {n: kind for n, kind in kinds.items() if kind.kind == "struct" and is_known(kind)}


def own():
    """Return offset and size of every field of every structure, by name."""
    return {
        name: {
            field: [info.offset, ffi.sizeof(info.type)]
            for field, info in kind.fields or ()
            if field
        }
        for name, kind in structures().items()
    }


def fields_of(header):
    """Return the fields of each structure that a header defines, by the name of the structure."""
    text = _COMMENT.sub("", header)
    found = {}
    for name, body in _STRUCT.findall(text):
        body = re.sub(r"_PJRT_API_STRUCT_FIELD\(\s*(\w+)\s*\)", r"void* \1", body)
        body = re.sub(r"\(\*\s*(\w+)\)\s*\([^;]*\)", r"\1", body)
        found[name] = set(re.findall(r"(\w+)\s*;", body))
    return found


def measured(header, compiler, folder):
    """Return what a C compiler makes of a header: fields by structure, and enumerators."""
    text = header.read_text()
    theirs = fields_of(text)
    mine = own()
    pairs = [(n, f) for n in mine if n in theirs for f in mine[n] if f in theirs[n]]
    known = set(re.findall(r"PJRT_(?!API)[A-Za-z_]+_k?[A-Z]\w*", text))
    names = sorted(known & set(dir(lib)))
    rows = [
        f'printf("{s} {f} %zu %zu\\n", offsetof({s}, {f}), sizeof((({s}*)0)->{f}));'
        for s, f in pairs
    ]
    rows += [f'printf("{name} = %d 0\\n", (int){name});' for name in names]
    program = folder / "measure.c"
    program.write_text(
        f'#include <stdio.h>\n#include <stddef.h>\n#include "{header}"\n'
        "int main(void) {\n" + "\n".join(rows) + "\nreturn 0; }\n"
    )
    subprocess.run([compiler, str(program), "-o", str(folder / "measure")], check=True)
    done = subprocess.run([str(folder / "measure")], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def compare(header, compiler, folder):
    mine = own()
    structs = set()
    for name, field, first, second in measured(header, compiler, folder):
        if field == "=":
            assert getattr(lib, name) == int(first), name
        else:
            structs.add(name)
            assert mine[name][field] == [int(first), int(second)], f"{name}.{field}"
    return structs


def test_the_layout_is_that_of_the_header_of_the_cpu_plugin(xla_cpu_library, compiler, tmp_path):
    header = Path(xla_cpu_library).parent / "include" / "pjrt_c_api.h"
    assert len(compare(header, compiler, tmp_path)) > 110


@pytest.mark.wheels
def test_the_layout_is_that_of_a_later_header(compiler, tmp_path):
    found = module_file("tensorflow", "include/xla/pjrt/c/pjrt_c_api.h")
    if found is None:
        pytest.skip("tensorflow-cpu is not installed")
    assert len(compare(Path(found), compiler, tmp_path)) > 120


def test_the_comparison_would_notice_a_moved_field(compiler, tmp_path, include):
    folder = include / "devrt" / "pjrt" / "c_api"
    names = re.findall(r'"devrt/pjrt/c_api/(\w+\.h)"', (folder / "pjrt_c_api.h").read_text())
    text = "\n".join(
        re.sub(r'#include "devrt[^\n]*', "", (folder / name).read_text()) for name in names
    )
    good = tmp_path / "good.h"
    good.write_text(text)
    assert "PJRT_Program" in compare(good, compiler, tmp_path)
    bad = tmp_path / "bad.h"
    moved = text.replace("  char* code;\n  size_t code_size;", "  size_t code_size;\n  char* code;")
    assert moved != text
    bad.write_text(moved)
    with pytest.raises(AssertionError, match="PJRT_Program"):
        compare(bad, compiler, tmp_path)


def table():
    kind = ffi.typeof("PJRT_Api")
    return [name for name, _ in kind.fields if name.startswith("PJRT_")]


def test_functions_are_named_in_the_order_in_which_they_came():
    order = table()
    assert set(FUNCTIONS) <= set(order)
    minors = [FUNCTIONS.get(name, MINIMUM_MINOR) for name in order]
    later = [minor for minor in minors if minor > MINIMUM_MINOR]
    first = next(at for at, minor in enumerate(minors) if minor > MINIMUM_MINOR)
    assert all(minor > MINIMUM_MINOR for minor in minors[first:])
    # Some were merged after their number was given: the table is in the order of the merges.
    assert sum(a > b for a, b in itertools.pairwise(later)) <= 6


def test_an_older_header_has_the_functions_of_its_version(xla_cpu_library):
    header = (Path(xla_cpu_library).parent / "include" / "pjrt_c_api.h").read_text()
    minor = int(re.search(r"define PJRT_API_MINOR (\d+)", header).group(1))
    there = set(re.findall(r"_PJRT_API_STRUCT_FIELD\(\s*(PJRT_\w+)\s*\)", header))
    expected = {name for name in table() if FUNCTIONS.get(name, MINIMUM_MINOR) <= minor}
    assert there == expected
    codes = {n: v for n, v in _enumerators(header) if n.startswith("PJRT_Buffer_Type_")}
    assert [code for code, since in TYPES.items() if since > minor and code in codes.values()] == []
    assert all(code in codes.values() for code, since in TYPES.items() if since <= minor)


def _enumerators(header):
    body = re.search(r"enum \{([^}]*)\} PJRT_Buffer_Type;", _COMMENT.sub("", header)).group(1)
    names = [name.strip() for name in body.split(",") if name.strip()]
    return list(zip(names, range(len(names)), strict=True))


def test_cpp_takes_the_header_too(compiler, include, tmp_path):
    source = tmp_path / "use.cpp"
    source.write_text(
        '#include "devrt/pjrt/c_api/pjrt_c_api.h"\nstatic_assert(sizeof(PJRT_Api) == 1144);\n'
        'extern "C" const PJRT_Api* GetPjrtApi();\n'
    )
    command = [compiler, "-x", "c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run([*command, f"-I{include}", str(source)], check=True)


def test_the_structures_are_the_ones_that_a_client_needs():
    assert len([name for name in own() if name.endswith("_Args")]) > 140
    assert json.dumps(own())  # plain data
