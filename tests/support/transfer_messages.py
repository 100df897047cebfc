"""Messages of the protocol of transfers, for peers that do not keep to it."""

import json
import struct

import numpy as np

import devrt

HEADER = struct.Struct("!BIQ")  # the number, the bytes of the record, the bytes behind it
X = devrt.ShapeDtypeStruct((2, 3), np.float64)


def message(number, record, count=0):
    words = record if isinstance(record, bytes) else json.dumps(record).encode()
    return HEADER.pack(number, len(words), count) + words


def exactly(connection, size):
    """Return so many bytes of a connection."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
