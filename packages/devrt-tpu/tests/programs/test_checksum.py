"""Serialised programs and topologies that were damaged are refused before the plugin reads them."""

import random

import numpy as np
import pytest

from devrt.errors import DevrtError, InvalidArgumentError
from devrt_pjrt.programs import compile
from devrt_pjrt.programs.checksum import with_checksum, without_checksum


def test_a_bit_that_changed_anywhere_is_seen(xla_cpu, add, add_text):
    data, dice = add.serialize(), random.Random(5)
    one = xla_cpu.buffer_from_pyval(np.ones(8, np.float32))
    refused = 0
    for at in [0, len(data) - 1, *(dice.randrange(len(data)) for _ in range(300))]:
        damaged = bytearray(data)
        damaged[at] ^= 1 << dice.randrange(8)
        try:
            made = xla_cpu.deserialize_executable(bytes(damaged))
        except DevrtError:
            refused += 1
        else:  # what was hit only marks the digest as one
            assert np.asarray(made.execute([one, one])[0]).tolist() == [2] * 8
    assert refused > 290


def test_bytes_without_a_digest_are_taken(xla_cpu, add, monkeypatch):
    checked = add.serialize()
    plain = without_checksum(checked, "test")
    assert len(plain) < len(checked)
    assert xla_cpu.deserialize_executable(plain).name == "add"
    monkeypatch.setattr(compile, "without_checksum", lambda data, _: data)
    assert xla_cpu.deserialize_executable(checked).name == "add"  # as another runtime reads it


@pytest.mark.parametrize("data", [b"", b"\x0a\x03abc", b"\x08\x01" * 99])
def test_a_message_comes_back(data):
    assert without_checksum(with_checksum(data), "test") == data
    assert with_checksum(data) != data
    with pytest.raises(InvalidArgumentError, match="damaged"):
        without_checksum(b"\x08" + with_checksum(data), "test")


@pytest.mark.parametrize("data", [b"\x83\xaf", b"text", b"\x0a\xff"])
def test_what_is_no_message_is_left_alone(data):
    assert with_checksum(data) == data
    assert without_checksum(data, "test") == data
