"""Reading heap profiles, and ``devrt heap``."""

import contextlib
import gzip
import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from devrt import errors
from devrt.cli import main
from devrt.wire.pprof import read_profile


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def encode(samples, *, packed=True):
    """Return a profile of (objects, bytes, labels, stack of (function, file, line)) samples."""
    strings = [""]

    def text(value):
        if value not in strings:
            strings.append(value)
        return strings.index(value)

    def many(number, values):
        if packed:
            return field(number, b"".join(map(varint, values)))
        return b"".join(field(number, v) for v in values)

    out = b""
    for name, unit in (("objects", "count"), ("space", "bytes")):
        out += field(1, field(1, text(name)) + field(2, text(unit)))
    places = []
    for objects, space, labels, stack in samples:
        ids = []
        for place in stack:
            if place not in places:
                places.append(place)
                function, file, line = place
                number = len(places)
                message = field(1, number) + field(2, text(function)) + field(4, text(file))
                out += field(5, message)
                out += field(4, field(1, number) + field(4, field(1, number) + field(2, line)))
            ids.append(places.index(place) + 1)
        message = many(1, ids) + many(2, (objects, space))
        for key, value in labels.items():
            message += field(3, field(1, text(key)) + field(2, text(value)))
        out += field(2, message)
    out += field(9, 1_700_000_000_000_000_000)
    return out + b"".join(field(6, s.encode()) for s in strings)


WORDS = st.text(max_size=6)
PLACES = st.tuples(WORDS, WORDS, st.integers(0, 1 << 40))
SAMPLES = st.lists(
    st.tuples(
        st.integers(-5, 1 << 62),
        st.integers(-(1 << 62), 1 << 62),
        st.dictionaries(WORDS, WORDS, max_size=3),
        st.lists(PLACES, max_size=4).map(tuple),
    ),
    max_size=5,
)


@given(samples=SAMPLES, packed=st.booleans(), compressed=st.booleans())
def test_what_was_written_is_read(samples, packed, compressed):
    data = encode(samples, packed=packed)
    profile = read_profile(gzip.compress(data) if compressed else data)
    assert profile.units == {"objects": "count", "space": "bytes"}
    assert profile.time_nanos == 1_700_000_000_000_000_000
    read = [(s.values["objects"], s.values["space"], s.labels, s.stack) for s in profile.samples]
    assert read == samples


@given(st.binary(max_size=60), st.booleans())
def test_garbage_is_refused_or_read_and_never_crashes(data, compressed):
    with contextlib.suppress(errors.InvalidArgumentError):
        read_profile(b"\x1f\x8b" + data if compressed else data)


@given(st.data())
def test_a_cut_profile_is_refused(data):
    whole = encode([(1, 2, {"a": "b"}, (("f", "g.py", 3),))])
    cut = whole[: data.draw(st.integers(0, len(whole) - 30))]
    with pytest.raises(errors.InvalidArgumentError, match="no pprof profile"):
        read_profile(cut)


BIG = {"device": "cpu:0", "memory_kind": "device", "array": "float32[9]", "call_site": "load.py:7"}
STACK = (("put", "devrt/x.py", 1), ("load", "load.py", 7), ("main", "load.py", 90))


@pytest.fixture
def saved(tmp_path):
    """A profile of two call sites, the larger one second."""
    samples = [
        (5, 100, {"device": "cpu:1"}, ()),
        (2, 3 << 20, BIG, STACK),
        (1, 1 << 20, {**BIG, "array": "int8[4]", "device": "cpu:1"}, STACK),
    ]
    path = tmp_path / "heap.pb"
    path.write_bytes(encode(samples))
    return path


def invoke(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)


def test_call_sites_are_shown_the_largest_first(saved):
    result = invoke("heap", saved)
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if "cpu:" in line]
    assert "4.0 MiB" in lines[0]
    assert "load.py:7" in lines[0]
    assert "float32[9] and 1 more" in lines[0]
    assert "100 B" in lines[1]
    assert "4.0 MiB in 8 buffers at 2023-11-14T22:13:20+00:00" in result.stdout
    short = invoke("heap", saved, "--top", 1).stdout
    assert "100 B" not in short
    assert "1 more call sites" in short


def test_json_has_it_all(saved):
    report = json.loads(invoke("heap", saved, "--json").stdout)
    assert (report["objects"], report["bytes"]) == (8, (4 << 20) + 100)
    assert report["call_sites"][0] == {
        "call_site": "load.py:7",
        "function": "load",
        "objects": 3,
        "bytes": 4 << 20,
        "devices": ["cpu:0", "cpu:1"],
        "memory_kinds": ["device"],
        "arrays": ["float32[9]", "int8[4]"],
    }
    assert report["call_sites"][1]["call_site"] == ""


def test_output_is_compressed(saved, tmp_path):
    output = tmp_path / "out.pb.gz"
    assert invoke("heap", saved, "--output", output).exit_code == 0
    assert gzip.decompress(output.read_bytes()) == saved.read_bytes()
    again = tmp_path / "again.pb.gz"
    assert invoke("heap", output, "--output", again).exit_code == 0
    assert again.read_bytes() == output.read_bytes()


def test_what_is_no_profile_is_one_message(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("no profile")
    result = invoke("heap", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "InvalidArgumentError" in result.stderr
    assert str(path) in result.stderr
    assert invoke("heap", tmp_path / "none").exit_code == 2
