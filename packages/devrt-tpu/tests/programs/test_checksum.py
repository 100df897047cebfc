"""Serialised programs and topologies that were damaged are refused before the plugin reads them."""

import random

import pytest

from devrt.compiling import serialized
from devrt.compiling.serialized import Serialized
from devrt.errors import InvalidArgumentError


def test_a_bit_that_changed_anywhere_is_seen(xla_cpu, add, add_text):
    data, dice = add.serialize(), random.Random(5)
    ends = [0, *range(len(data) - 60, len(data))]  # the last are the checksum's own
    for at in [*ends, *(dice.randrange(len(data)) for _ in range(300))]:
        damaged = bytearray(data)
        damaged[at] ^= 1 << dice.randrange(8)
        with pytest.raises(InvalidArgumentError, match="damaged"):
            xla_cpu.deserialize_executable(bytes(damaged))


def test_bytes_without_a_digest_are_taken(xla_cpu, add, monkeypatch):
    checked = add.serialize()
    plain = Serialized.read(checked, "test").data
    assert len(plain) < len(checked)
    assert xla_cpu.deserialize_executable(plain).name == "add"
    monkeypatch.setattr(Serialized, "read", lambda data, _: Serialized(data))
    assert xla_cpu.deserialize_executable(checked).name == "add"  # as another runtime reads it


@pytest.mark.parametrize(("part", "match"), [("_compiler", "version"), ("_machine", "processor")])
def test_code_that_was_made_elsewhere_is_refused(xla_cpu, add_text, monkeypatch, part, match):
    data = xla_cpu.compile_and_load(add_text).serialize()
    moved = xla_cpu.deserialize_executable(data, xla_cpu.devices()[1:2]).serialize()
    assert Serialized.read(moved, "test").made_by == Serialized.read(data, "test").made_by
    monkeypatch.setattr(serialized, part, lambda *_: b"x" * 32)
    for each in data, moved:
        with pytest.raises(InvalidArgumentError, match=f"cannot be loaded here.*{match}"):
            xla_cpu.deserialize_executable(each)
