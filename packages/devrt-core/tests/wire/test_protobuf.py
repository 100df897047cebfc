"""The wire format: what is written is read again, and bytes that are no message are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import (
    bytes_field,
    double_field,
    fields,
    float_field,
    int_field,
    ints,
    packed,
)

NUMBERS = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.integers(1, 2**29 - 1)


@given(FIELDS, NUMBERS, st.binary(), st.lists(NUMBERS))
def test_what_is_written_is_read_again(number, value, data, values):
    message = int_field(number, value) + bytes_field(number, data) + packed(number, values)
    (n, one), (_, two), (_, three) = fields(message)
    assert n == number
    assert ints(one) == [value]
    assert bytes(two) == data
    assert ints(three) == values


def test_numbers_are_written_as_the_format_has_them():
    assert int_field(1, 150) == bytes.fromhex("089601")  # the example of the format's description
    assert double_field(4, 1.0) == bytes.fromhex("21000000000000f03f")
    assert float_field(20, 1.0) == bytes.fromhex("a5010000803f")
    assert float_field(20, 0.0) == b""


@given(st.binary())
def test_any_bytes_are_a_message_or_a_typed_error(data):
    try:
        read = list(fields(data))
    except InvalidArgumentError:
        return
    assert sum(1 for _ in read) <= len(data)


@pytest.mark.parametrize("data", [b"\x08", b"\x0a\x05ab", b"\x0b", b"\x09\0\0", b"\x80" * 11])
def test_what_is_cut_short_is_refused(data):
    with pytest.raises(InvalidArgumentError, match="no protobuf message"):
        list(fields(data))
