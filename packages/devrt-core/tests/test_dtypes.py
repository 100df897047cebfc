"""The table of element types against NumPy and ml_dtypes."""

import datetime

import ml_dtypes
import numpy as np
import pytest

from devrt import dtypes
from devrt.dtypes import ELEMENT_TYPES
from devrt.errors import InvalidTypeError

each = pytest.mark.parametrize("element", ELEMENT_TYPES, ids=lambda e: e.name)

# PJRT_Buffer_Type of the PJRT C API; 0 is INVALID and 23 is TOKEN, which no array has.
PJRT_CODES = {
    "bool": 1,
    "int8": 2,
    "int64": 5,
    "uint8": 6,
    "uint64": 9,
    "float16": 10,
    "float32": 11,
    "float64": 12,
    "bfloat16": 13,
    "complex64": 14,
    "complex128": 15,
    "float8_e5m2": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3b11fnuz": 18,
    "float8_e5m2fnuz": 19,
    "float8_e4m3fnuz": 20,
    "int4": 21,
    "uint4": 22,
    "int2": 24,
    "uint2": 25,
    "float8_e4m3": 26,
    "float8_e3m4": 27,
    "float8_e8m0fnu": 28,
    "float4_e2m1fn": 29,
    "int1": 30,
    "uint1": 31,
    "float6_e2m3fn": 32,
    "float6_e3m2fn": 33,
}


@each
def test_a_row_is_the_dtype_that_numpy_or_ml_dtypes_calls_so(element):
    dtype = dtypes.to_numpy(element.code)
    scalar = getattr(ml_dtypes, element.name, None) or getattr(np, element.name, np.bool_)
    assert dtype == np.dtype(scalar)
    assert (dtype.name, dtype.itemsize) == (element.name, element.itemsize)


@each
def test_bits_are_those_of_the_value(element):
    dtype = dtypes.to_numpy(element.code)
    if element.name.startswith(("int", "uint")):
        expected = ml_dtypes.iinfo(dtype).bits
    elif element.name.startswith(("float", "bfloat")):
        expected = ml_dtypes.finfo(dtype).bits
    else:
        expected = dtype.itemsize * 8
    assert element.bits == expected


@each
def test_every_way_to_a_row_leads_back_to_it(element):
    dtype = dtypes.to_numpy(element.code)
    assert dtypes.by_name(element.name) is element
    assert dtypes.from_numpy(dtype) is element
    assert dtypes.from_numpy(dtype.type) is element
    assert dtypes.from_numpy(element.name) is element
    assert dtypes.code_of(dtype) == element.code
    assert dtypes.to_numpy(element.code) is dtype


def test_codes_are_those_of_pjrt_and_unique():
    codes = {element.name: element.code for element in ELEMENT_TYPES}
    assert codes.items() >= PJRT_CODES.items()
    assert len(set(codes.values())) == len(ELEMENT_TYPES) == len(codes)


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">u2", ">c16", "<f8", "=f2"])
def test_byte_order_is_ignored(dtype):
    assert dtypes.from_numpy(dtype).name == np.dtype(dtype).newbyteorder("=").name


@pytest.mark.parametrize(
    "dtype",
    [
        object,
        str,
        bytes,
        "U7",
        "S3",
        "V4",
        "datetime64[s]",
        "timedelta64[ns]",
        datetime.datetime,
        [("x", "f4"), ("y", "i4")],
        (np.float32, (2,)),
        np.longdouble,
        np.clongdouble,
        "no such dtype",
        "half \udc80",
        np.dtypes.StringDType(),
    ],
    ids=str,
)
def test_what_no_device_holds_is_refused(dtype):
    with pytest.raises(InvalidTypeError, match="cannot be held by a device") as caught:
        dtypes.from_numpy(dtype)
    assert "float32" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert caught.value.dtype


@pytest.mark.parametrize("code", [0, 23, 34, -1])
def test_unknown_codes_are_refused(code):
    with pytest.raises(InvalidTypeError, match=f"PJRT type {code}"):
        dtypes.to_numpy(code)


def test_unknown_names_are_refused():
    with pytest.raises(InvalidTypeError, match="float7"):
        dtypes.by_name("float7")


def test_a_name_of_ml_dtypes_needs_no_import_of_it_first(run_python):
    code = "from devrt import dtypes; print(dtypes.from_numpy('bfloat16').code)"
    assert run_python("-c", code).stdout == "13\n"


def test_importing_the_table_imports_no_numpy(run_python):
    code = (
        "import sys; from devrt import dtypes; dtypes.by_name('int4')\n"
        "print(sorted({'numpy', 'ml_dtypes'} & set(sys.modules)))"
    )
    assert run_python("-c", code).stdout == "[]\n"
