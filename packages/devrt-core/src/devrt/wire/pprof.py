"""Profiles in pprof's form: gzipped protobuf of ``profile.proto``, what devrt needs of it.

Source of the field numbers: ``profile.proto`` of pprof.
"""

from __future__ import annotations

import dataclasses
import gzip
import zlib

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import Message, bytes_field, int_field, packed

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


def _decode(data: bytes) -> Profile:
    profile = Message(data)
    strings = [bytes(text).decode("utf-8", "replace") for text in profile.parts(6)]
    if not strings or strings[0]:
        msg = "it has no string table"
        raise ValueError(msg)
    units = {strings[kind.number(1)]: strings[kind.number(2)] for kind in profile.messages(1)}
    functions = {function.number(1): function for function in profile.messages(5)}
    locations = {}
    for location in profile.messages(4):
        line = location.messages(4)[0]
        function = functions[line.number(1)]
        name = strings[function.number(3) or function.number(2)]
        locations[location.number(1)] = name, strings[function.number(4)], line.number(2)
    samples = tuple(
        Sample(
            dict(zip(units, sample.ints(2), strict=True)),
            {strings[label.number(1)]: strings[label.number(2)] for label in sample.messages(3)},
            tuple(locations[number] for number in sample.ints(1)),
        )
        for sample in profile.messages(2)
    )
    return Profile(profile.number(9), units, samples)


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
