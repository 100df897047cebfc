"""Serialised bytes come back with what went with them, and damage to them is seen."""

import pytest

from devrt.compiling.serialized import Serialized, with_checksum
from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import fields

MESSAGES = [b"", b"\x0a\x03abc", b"\x08\x01" * 99]
OTHERS = [b"\x83\xaf", b"text", b"\x0a\xff"]


@pytest.mark.parametrize("data", MESSAGES)
def test_a_message_comes_back(data):
    checked = with_checksum(data)
    assert Serialized.read(checked, "test") == Serialized(data, is_checked=True)
    with pytest.raises(InvalidArgumentError, match="damaged"):
        Serialized.read(b"\x08" + checked, "test")


@pytest.mark.parametrize("data", OTHERS)
def test_what_is_no_message_is_left_alone(data):
    assert with_checksum(data) == data
    assert Serialized.read(data, "test") == Serialized(data)


@pytest.mark.parametrize("data", [*MESSAGES, *OTHERS])
@pytest.mark.parametrize(("options", "made_by"), [(b"o", b""), (b"", b"m"), (b"o" * 300, b"m")])
def test_options_and_origin_come_back(data, options, made_by):
    checked = with_checksum(data, options, made_by)
    assert Serialized.read(checked, "test") == Serialized(data, options, made_by, True)


def test_other_runtimes_read_the_message():
    read = list(fields(with_checksum(b"\x08\x01", b"options")))
    assert read[0] == (1, 1)
    assert len(read) == 2


def test_every_bit_counts():
    checked = with_checksum(b"\x0a\x03abc", b"options")
    for at in range(8 * len(checked)):
        damaged = bytearray(checked)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(InvalidArgumentError, match="damaged"):
            Serialized.read(bytes(damaged), "test")


def test_a_checksum_that_is_cut_or_followed_by_bytes_is_damage():
    plain = b"\x0a\x03abc"
    checked = with_checksum(plain, b"options")
    for cut in range(len(plain) + 5, len(checked)):  # behind the tag of its field
        with pytest.raises(InvalidArgumentError, match="damaged"):
            Serialized.read(checked[:cut], "test")
    for more in b"x", bytes(99):
        with pytest.raises(InvalidArgumentError, match="damaged"):
            Serialized.read(checked + more, "test")


@pytest.mark.parametrize("donated", [None, (), (0, 2, 300)])
def test_what_a_program_takes_over_is_kept_with_its_bytes(donated):
    data = with_checksum(MESSAGES[1], b"options", b"made by", donated)
    found = Serialized.read(data, "test")
    assert (found.donated, found.data, found.options) == (donated, MESSAGES[1], b"options")
