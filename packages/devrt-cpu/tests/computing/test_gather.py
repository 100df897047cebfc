"""Gather, scatter and slices that move, as the compiler for the CPU runs them."""

import numpy as np
import pytest

from devrt.programs.jit import jit
from devrt.tracing import dynamic_slice, dynamic_update_slice, gather, scatter

pytestmark = pytest.mark.engine
X = np.arange(12, dtype=np.float32).reshape(3, 4)
ROWS = np.array([2, 0, 2], np.int32)
ONE_ROW = {"index_vector_dim": 1}


def test_rows_are_gathered():
    @jit
    def taken(x, i):
        return gather(
            x,
            i,
            offset_dims=(1,),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            slice_sizes=(1, 4),
            **ONE_ROW,
        )

    np.testing.assert_array_equal(taken(X, ROWS), X[ROWS])


def test_a_batch_of_rows_gathers_its_own_elements():
    @jit
    def taken(x, i):
        return gather(
            x,
            i,
            offset_dims=(),
            collapsed_slice_dims=(1,),
            start_index_map=(1,),
            operand_batching_dims=(0,),
            start_indices_batching_dims=(0,),
            slice_sizes=(1, 1),
            index_vector_dim=2,
        )

    i = np.array([[3, 1], [0, 0], [2, 3]], np.int32)
    np.testing.assert_array_equal(taken(X, i[..., None]), np.take_along_axis(X, i, 1))


def test_rows_are_scattered_and_combined():
    new = np.full((3, 4), 10, np.float32)
    names = {"set": None, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}

    @jit
    def scattered(x, i, new):
        dimensions = {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
        }
        return [scatter(x, i, new, name, **dimensions, **ONE_ROW) for name in names]

    for got, function in zip(scattered(X, ROWS, new), names.values(), strict=True):
        expected = X.copy()
        if function is None:
            expected[ROWS] = new
        else:
            function.at(expected, ROWS, new)
        np.testing.assert_array_equal(got, expected)


def test_slices_move_until_they_fit():
    @jit
    def moved(x, i):
        part = dynamic_slice(x, (i, 1), (2, 3))
        return part, dynamic_update_slice(x, part, (0, i))

    part, updated = moved(X, 7)
    np.testing.assert_array_equal(part, X[1:3, 1:4])
    expected = X.copy()
    expected[0:2, 1:4] = X[1:3, 1:4]
    np.testing.assert_array_equal(updated, expected)
