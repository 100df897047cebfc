"""What goes over a direct connection: a length, a number, and a message of the protocol.

A request's number is that of the method in `METHODS`, or `HELLO` for the first, which has the
version and the token; a response's is the status code, and what follows an error is its words and
details. The first response is the service's own `HELLO`, or an error: what else comes is from
another program, HTTP/2's first frame among it, whose number would be 0.
"""

from __future__ import annotations

import struct

from devrt.distributed.faults import from_wire, to_wire
from devrt.distributed.protocol.contract import CONTRACT
from devrt.distributed.protocol.messages import METHODS
from devrt.errors import DevrtError

__all__ = [
    "HEADER",
    "HELLO",
    "NUMBERS",
    "error_of",
    "frame",
    "frame_of_error",
    "hello",
    "hello_of_service",
    "is_foreign",
    "read_hello",
    "read_hello_of_service",
]

HEADER = struct.Struct("!IB")
HELLO = 255
_CONTRACT = struct.Struct("!H")
NUMBERS = {name: number for number, name in enumerate(METHODS)}
_WORDS = struct.Struct("!I")
_OF_SERVICE = struct.Struct("!H?Q")
_ERRORS = range(1, 17)


def hello(token: bytes, contract: int = CONTRACT) -> bytes:
    """Return the first frame of a connection: who it is, and of which version."""
    return frame(HELLO, _CONTRACT.pack(contract) + token)


def read_hello(payload: bytes) -> tuple[int, bytes]:
    """Return the version and the token of a first frame; of what is none, a version that is not."""
    if len(payload) < _CONTRACT.size:
        return -1, b""
    return _CONTRACT.unpack_from(payload)[0], payload[_CONTRACT.size :]


def hello_of_service(resumes: bool, message_bytes: int) -> bytes:
    """Return a service's first frame: its version, whether another may carry on, and its limit."""
    return frame(HELLO, _OF_SERVICE.pack(CONTRACT, resumes, message_bytes))


def read_hello_of_service(payload: bytes) -> tuple[bool, int]:
    """Return whether another service may carry on after one, and the longest message it takes."""
    _, resumes, message_bytes = _OF_SERVICE.unpack(payload)
    return resumes, message_bytes


def is_foreign(size: int, number: int) -> bool:
    """Return whether the header of a first response is none of devrt's service."""
    return size != _OF_SERVICE.size if number == HELLO else number not in _ERRORS


def frame(number: int, payload: bytes) -> bytes:
    """Return a request or a response as it is sent."""
    return HEADER.pack(len(payload), number) + payload


def frame_of_error(error: DevrtError) -> bytes:
    """Return the response for a call that failed."""
    words = str(error).encode()
    return frame(int(error.code), _WORDS.pack(len(words)) + words + to_wire(error))


def error_of(code: int, payload: bytes) -> DevrtError:
    """Return the error that a response has."""
    (size,) = _WORDS.unpack_from(payload)
    words = payload[_WORDS.size : _WORDS.size + size].decode(errors="replace")
    return from_wire(code, words, payload[_WORDS.size + size :] or None)
