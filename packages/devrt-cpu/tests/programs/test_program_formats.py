"""The formats that a program takes its arguments in and gives its results in."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.layout import Format, Layout
from devrt.programs import load_program

pytestmark = pytest.mark.engine

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


TRANSPOSE = """func.func @main(%a: tensor<2x3xf32>) -> (
    tensor<3x2xf32> {{mhlo.layout_mode = "{0}"}}, tensor<2x3xf32> {{mhlo.layout_mode = "{1}"}}) {{
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.add %a, %a : tensor<2x3xf32>
  return %0, %1 : tensor<3x2xf32>, tensor<2x3xf32> }}"""


@pytest.mark.parametrize("first", ["default", "{1,0}"])
def test_results_in_row_major_layouts_are_given(first):
    program = load_program(TRANSPOSE.format(first, "default"))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for expected, result, form in zip(
        (x.T, x + x), program(x), program.output_formats, strict=True
    ):
        np.testing.assert_array_equal(result, expected)
        assert result.format == form


@pytest.mark.parametrize(("first", "second"), [("{0,1}", "default"), ("auto", "{0,1}")])
def test_results_in_another_layout_are_refused(first, second):
    with pytest.raises(UnimplementedError, match=r"in the layout \{0,1\}, and the CPU"):
        load_program(TRANSPOSE.format(first, second))


@pytest.mark.parametrize(("first", "second"), [("auto", "auto"), ("default", "auto")])
def test_results_whose_layout_the_compiler_chooses_are_right_or_refused(first, second):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with contextlib.suppress(UnimplementedError):
        results = load_program(TRANSPOSE.format(first, second))(x)
        for expected, result in zip((x.T, x + x), results, strict=True):
            np.testing.assert_array_equal(result, expected)
