"""The execution stream id belongs to a thread, and a block gives it back."""

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.xla_client import (
    execution_stream_id,
    get_execution_stream_id,
    set_execution_stream_id,
)
from support import together


@pytest.fixture(autouse=True)
def _given_back():
    before = get_execution_stream_id()
    yield
    set_execution_stream_id(before)


def test_a_block_gives_the_id_back():
    assert get_execution_stream_id() == 0
    with execution_stream_id(42):
        assert get_execution_stream_id() == 42
        with execution_stream_id(np.int8(-1)):
            assert get_execution_stream_id() == -1
        assert get_execution_stream_id() == 42
    assert get_execution_stream_id() == 0
    with pytest.raises(KeyError), execution_stream_id(7):
        raise KeyError
    assert get_execution_stream_id() == 0


def test_every_thread_has_its_own():
    set_execution_stream_id(5)
    seen = []

    def work(_):
        seen.append(get_execution_stream_id())
        set_execution_stream_id(6)
        seen.append(get_execution_stream_id())

    together(work, [0])
    assert seen == [0, 6]
    assert get_execution_stream_id() == 5


@pytest.mark.parametrize(
    ("value", "error"),
    [(1.5, InvalidTypeError), ("1", InvalidTypeError), (2**63, InvalidArgumentError)],
)
def test_an_id_is_an_int_of_64_bits(value, error):
    for use in (set_execution_stream_id, lambda v: execution_stream_id(v).__enter__()):
        with pytest.raises(error):
            use(value)
    assert get_execution_stream_id() == 0
    set_execution_stream_id(-(2**63))
