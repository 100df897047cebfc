"""Profiles in pprof's form: gzipped protobuf of ``profile.proto``, what devrt needs of it.

Source of the field numbers: ``profile.proto`` of pprof.
"""

from __future__ import annotations

import dataclasses
import gzip
import zlib
from collections.abc import Iterator

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import bytes_field, fields, int_field, ints, packed

__all__ = ["Profile", "Sample", "read_profile", "write_profile"]


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Values that belong to one stack of calls.

    Attributes
    ----------
    values : dict
        The number of each sample type, by its name.
    labels : dict
        Text labels by key.
    stack : tuple of (str, str, int)
        Function, file and line of each call, the innermost first.
    """

    values: dict[str, int]
    labels: dict[str, str]
    stack: tuple[tuple[str, str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A profile.

    Attributes
    ----------
    time_nanos : int
        When it was made, in nanoseconds since 1970.
    units : dict
        The unit of each sample type, by its name.
    samples : tuple of Sample
        In the order of the file.
    """

    time_nanos: int
    units: dict[str, str]
    samples: tuple[Sample, ...]


def read_profile(data: bytes, name: str = "the profile") -> Profile:
    """Decode a profile, compressed or not.

    Parameters
    ----------
    data
        The bytes.
    name
        What to call them in an error.

    Raises
    ------
    InvalidArgumentError
        If they are no profile.
    """
    try:
        return _decode(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        msg = (
            f"{name} is no pprof profile ({type(error).__name__}: {error}). "
            "Pass a file that devrt.heap_profile(path) wrote."
        )
        raise InvalidArgumentError(msg, operation="read_profile") from None


Fields = dict[int, list[int | bytes]]


def _decode(data: bytes) -> Profile:
    profile = _fields(data)
    strings = [_bytes(s).decode("utf-8", "replace") for s in profile.get(6, [])]
    if not strings or strings[0]:
        msg = "it has no string table"
        raise ValueError(msg)
    types = [_fields(_bytes(t)) for t in profile.get(1, [])]
    units = {strings[_int(t, 1)]: strings[_int(t, 2)] for t in types}
    functions = {_int(f, 1): f for f in map(_fields, map(_bytes, profile.get(5, [])))}
    locations = {}
    for location in map(_fields, map(_bytes, profile.get(4, []))):
        line = _fields(_bytes(location[4][0]))
        function = functions[_int(line, 1)]
        name = strings[_int(function, 3) or _int(function, 2)]
        locations[_int(location, 1)] = name, strings[_int(function, 4)], _int(line, 2)
    samples = []
    for sample in map(_fields, map(_bytes, profile.get(2, []))):
        values = dict(zip(units, _packed(sample.get(2, [])), strict=True))
        labels = [_fields(_bytes(label)) for label in sample.get(3, [])]
        samples.append(
            Sample(
                values,
                {strings[_int(label, 1)]: strings[_int(label, 2)] for label in labels},
                tuple(locations[i] for i in _packed(sample.get(1, []))),
            )
        )
    return Profile(_int(profile, 9), units, tuple(samples))


def _fields(data: bytes) -> Fields:
    """Return the values of a message by field number, in order."""
    found: Fields = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value if isinstance(value, int) else bytes(value))
    return found


def _packed(values: list[int | bytes]) -> Iterator[int]:
    """Yield the integers of a repeated field, packed or not."""
    for value in values:
        yield from ints(value)


def _int(message: Fields, number: int) -> int:
    value = message.get(number, [0])[-1]
    if not isinstance(value, int):
        msg = f"field {number} is no number"
        raise TypeError(msg)
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        msg = "a number is where a message should be"
        raise TypeError(msg)
    return value


def write_profile(profile: Profile) -> bytes:
    """Encode a profile, compressed; the same bytes for equal profiles.

    Parameters
    ----------
    profile
        Its first unit is what pprof shows.
    """
    writer = _Writer()
    types = b"".join(writer.pair(1, *item) for item in profile.units.items())
    samples = b"".join(writer.sample(sample) for sample in profile.samples)
    head = types + samples + b"".join(writer.messages) + int_field(9, profile.time_nanos)
    default = int_field(14, writer.text(next(iter(profile.units), "")))
    strings = b"".join(bytes_field(6, text.encode()) for text in writer.strings)
    return gzip.compress(head + default + strings, mtime=0)


class _Writer:
    """Numbers the texts, functions and locations of a profile."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {"": 0}
        self.messages: list[bytes] = []
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[tuple[str, str, int], int] = {}

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def pair(self, number: int, one: str, two: str) -> bytes:
        return bytes_field(number, int_field(1, self.text(one)) + int_field(2, self.text(two)))

    def sample(self, sample: Sample) -> bytes:
        locations = packed(1, [self._location(frame) for frame in sample.stack])
        labels = b"".join(self.pair(3, *label) for label in sample.labels.items())
        return bytes_field(2, locations + packed(2, sample.values.values()) + labels)

    def _location(self, frame: tuple[str, str, int]) -> int:
        if frame not in self._locations:
            function, file, line = frame
            number = self._locations[frame] = len(self._locations) + 1
            at = int_field(1, self._function(function, file)) + int_field(2, line)
            self.messages.append(bytes_field(4, int_field(1, number) + bytes_field(4, at)))
        return self._locations[frame]

    def _function(self, name: str, file: str) -> int:
        if (name, file) not in self._functions:
            number = self._functions[name, file] = len(self._functions) + 1
            texts = [self.text(name), self.text(name), self.text(file)]
            parts = [int_field(at, value) for at, value in enumerate([number, *texts], 1)]
            self.messages.append(bytes_field(5, b"".join(parts)))
        return self._functions[name, file]
