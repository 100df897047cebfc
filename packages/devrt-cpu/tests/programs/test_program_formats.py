"""The formats that a program takes its arguments in and gives its results in."""

from __future__ import annotations

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError
from devrt.layout import Format, Layout
from devrt.programs import load_program

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

ADD = """func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %a, %a : tensor<2x3xf32> return %0 : tensor<2x3xf32> }"""


def test_an_array_in_another_layout_is_put_in_the_program_s():
    program = load_program(ADD)
    (taken,), (given,) = program.input_formats, program.output_formats
    assert taken == Format(Layout(major_to_minor=(0, 1)), program.in_shardings[0])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    columns = devrt.device_put(x, Format(Layout(major_to_minor=(1, 0)), taken.sharding))
    with pytest.raises(InvalidArgumentError, match=r"row-major order.*input_formats"):
        program(columns)
    (result,) = program(devrt.device_put(columns, taken))
    assert result.format == given
    np.testing.assert_array_equal(result, x + x)
