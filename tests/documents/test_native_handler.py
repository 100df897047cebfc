"""The handler in C that the users' page shows is compiled and called as it stands."""

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

import devrt
from devrt import native
from support import shared_library

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")
pytest.importorskip("devrt_tpu")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "users" / "pjrt.md"
PROGRAM = """func.func @main(%a: tensor<5xf32>) -> tensor<5xf32> {
  %0 = stablehlo.custom_call @page_thrice(%a) {api_version = 4 : i32}
    : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32> }"""


def test_the_handler_of_the_page_is_called(tmp_path):
    (source,) = re.findall(r"^```c\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    flags = ["-Wall", "-Werror", f"-I{native.include_dir()}"]
    library = shared_library(tmp_path / "thrice.so", source, *flags)
    client = devrt.get_backend("xla_cpu_pjrt")
    client.register_custom_call("page_thrice", ctypes.CDLL(str(library)).thrice)
    values = np.arange(5, dtype=np.float32)
    (made,) = client.compile_and_load(PROGRAM).execute([client.buffer_from_pyval(values)])
    np.testing.assert_array_equal(np.asarray(made), values * 3)
