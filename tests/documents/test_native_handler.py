"""The handler in C that the users' page shows is compiled and called as it stands."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt import native

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")
pytest.importorskip("devrt_tpu")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "users" / "pjrt.md"
PROGRAM = """func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {
  %0 = stablehlo.custom_call @page_thrice(%a) {api_version = 4 : i32}
    : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32> }"""


def test_the_handler_of_the_page_is_called(tmp_path):
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    (source,) = re.findall(r"^```c\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "thrice.c").write_text(source, encoding="utf-8")
    library = tmp_path / "thrice.so"
    flags = ["-shared", "-fPIC", "-Wall", "-Werror", f"-I{native.include_dir()}"]
    subprocess.run([compiler, *flags, str(tmp_path / "thrice.c"), "-o", str(library)], check=True)
    client = devrt.get_backend("xla_cpu_pjrt")
    client.register_custom_call("page_thrice", ctypes.CDLL(str(library)).thrice)
    values = np.arange(5, dtype=np.float32)
    (made,) = client.compile_and_load(PROGRAM).execute([client.buffer_from_pyval(values)])
    np.testing.assert_array_equal(np.asarray(made), values * 3)
