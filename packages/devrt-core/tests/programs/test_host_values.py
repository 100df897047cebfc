"""Which values of the host a parameter's dtype holds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from devrt.errors import InvalidTypeError
from devrt.programs.host_values import as_argument

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (3, "int8", 3),
        (3, "float32", 3.0),
        (True, "float32", 1.0),
        (0.1, "float32", np.float32(0.1)),
        (0.1, ml_dtypes.bfloat16, ml_dtypes.bfloat16(0.1)),
        (float("inf"), "float16", np.inf),
        (NAN, "float32", NAN),
        (1 + 2j, "complex64", 1 + 2j),
        (2**64 - 1, "uint64", 2**64 - 1),
        ([1, 2], "float32", [1.0, 2.0]),
        ((0.5, 1), "float32", [0.5, 1.0]),
        ([[1], [2]], "uint8", [[1], [2]]),
        (7, ml_dtypes.int4, 7),
        (2**24 + 1, "float32", np.float32(2**24)),
        (2**70, "float32", 2.0**70),
        (2, "complex64", 2),
        (True, "bool", True),
        (True, "int8", 1),
        ([], "int32", []),
    ],
)
def test_python_s_numbers_become_a_dtype_of_their_kind_or_a_wider_one(value, dtype, expected):
    made = as_argument(value, np.dtype(dtype))
    assert made.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(made.astype(np.complex128), np.asarray(expected, np.complex128))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "int8"),
        (-1, "uint32"),
        (-1, "uint64"),
        (1, "bool"),
        (0.5, "int32"),
        (2.0, "int32"),
        (NAN, "int32"),
        (1e300, "float32"),
        (10**400, "float32"),
        (2 + 0j, "float32"),
        ([1, 2.0], "int32"),
        ([2**63, -1], "int64"),
        (2**70, "int64"),
        ([1, 300], "uint8"),
        (8, ml_dtypes.int4),
        ([-1, 2], "uint64"),
        (2**63, "int64"),
    ],
)
def test_what_does_not_is_refused(value, dtype):
    assert as_argument(value, np.dtype(dtype)) is None


def test_arrays_are_not_converted():
    array = np.ones(3)
    assert as_argument(array, np.dtype("float32")) is array
    assert as_argument(np.asarray(1), np.dtype("float32")).dtype == np.int64
    assert as_argument(["a"], np.dtype("float32")).dtype == np.dtype("U1")
    for scalar in (np.float64(0.5), np.float64(0.1), np.int32(-1), np.bool_(True)):
        assert as_argument(scalar, np.dtype("float32")).dtype == scalar.dtype
        assert as_argument([scalar], np.dtype("float32")).dtype == scalar.dtype


def test_what_no_array_can_be_made_of_is_an_error():
    with pytest.raises(InvalidTypeError):
        as_argument([[1], [2, 3]], np.dtype("float32"))
