"""Questions about dtypes: NumPy's answers where it has any, JAX's promotion."""

import ml_dtypes
import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import InvalidArgumentError, InvalidTypeError

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]


@pytest.mark.parametrize(
    ("operands", "want"),
    [
        ((1, 2.0), "float32"),
        (("int8", 1), "int8"),
        (("int32", 1.0), "float32"),
        (("int64", "float16"), "float16"),
        (("bfloat16", "float16"), "float32"),
        (("uint64", "int8"), "float32"),
        (("float64", "complex64"), "complex128"),
        ((np.float32(1), True), "float32"),
        ((np.float16, np.int8), "float16"),
    ],
)
def test_result_type(operands, want):
    assert dnp.result_type(*operands) == np.dtype(want)


def test_promote_types():
    assert dnp.promote_types("int8", "uint8") == np.int16
    assert dnp.promote_types("int32", float) == np.float32
    with pytest.raises(InvalidTypeError, match="no dtype in common"):
        dnp.promote_types("float8_e5m2", "float8_e4m3fn")


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_can_cast_is_numpys(casting):
    for one in DTYPES:
        for other in DTYPES:
            want = np.can_cast(one, other, casting)
            assert dnp.can_cast(one, other, casting) == want, (one, other)


def test_can_cast_of_ml_dtypes():
    assert dnp.can_cast("bfloat16", "float32")
    assert not dnp.can_cast("float16", "bfloat16")
    assert dnp.can_cast("int4", "int8")
    assert dnp.can_cast(np.int8, np.float32)
    with pytest.raises(InvalidTypeError, match="the number 1"):
        dnp.can_cast(1, "int8")


def test_kinds():
    assert dnp.isdtype("float32", "real floating")
    assert dnp.isdtype("bfloat16", ("integral", "real floating"))
    assert not dnp.isdtype("uint8", "signed integer")
    assert dnp.isdtype("int8", np.int8)
    with pytest.raises(InvalidArgumentError, match="'fraction' is no dtype and no kind"):
        dnp.isdtype("int8", "fraction")
    assert dnp.issubdtype("bfloat16", np.floating)
    assert dnp.issubdtype(np.int8, np.integer)
    assert not dnp.issubdtype("float32", np.integer)
    assert dnp.issubdtype(np.floating, np.inexact)


def test_limits():
    assert dnp.finfo("float32").eps == np.finfo(np.float32).eps
    assert dnp.finfo("bfloat16").nmant == ml_dtypes.finfo("bfloat16").nmant
    assert dnp.iinfo("int4").max == 7
    assert dnp.iinfo(np.int8).max == 127
    assert dnp.finfo(dnp.bfloat16).bits == 16
    assert dnp.finfo(np.ones(1, np.float16)).bits == 16
    with pytest.raises(InvalidArgumentError, match=r"finfo of int32.*iinfo"):
        dnp.finfo("int32")


def test_astype():
    x = devrt.device_put(np.array([0.0, 1.7, -1.7], np.float32))
    assert dnp.astype(x, "int32").tolist() == [0, 1, -1]
    assert dnp.astype(x, bool).tolist() == [False, True, True]
    assert dnp.astype(x, "bfloat16").dtype == ml_dtypes.bfloat16
    assert dnp.astype(np.array([0j, 1j]), bool).tolist() == [False, True]
    assert dnp.astype(np.array([1 + 2j]), "float32").tolist() == [1]
    assert dnp.astype(x, "float32", copy=False) is x
