"""What a child says, cut and mixed with garbage, and the end of what it printed."""

import pytest

from devrt.probing.listening import Replies, last_lines, signal_name
from devrt.probing.replying import MAX_LINE


def test_replies_are_taken_however_they_are_cut():
    data = b'\ntoken {"phase": "load"}\n\ntoken {"facts": {"a": 1}}\n'
    for size in range(1, len(data)):
        replies = Replies("token")
        for start in range(0, len(data), size):
            replies.feed(data[start : start + size])
        assert (replies.phase, replies.final) == ("load", {"facts": {"a": 1}})
        assert not replies.saw_garbage


@pytest.mark.parametrize(
    "junk",
    [
        b"nonsense\n",
        b"token\n",
        b"token {\n",
        b"token []\n",
        b'other {"facts": {}}\n',
        b'token {"facts": 5}\n',
        b'token {"phase": 5}\n',
        b"token " + b"[" * 100_000 + b"\n",
        b"x" * (3 * MAX_LINE) + b"\n",
        bytes(range(256)) + b"\n",
    ],
)
def test_garbage_is_remembered_and_changes_nothing(junk):
    replies = Replies("token")
    replies.feed(b'token {"phase": "probe"}\n')
    replies.feed(junk)
    assert (replies.phase, replies.final, replies.saw_garbage) == ("probe", None, True)
    replies.feed(b'\ntoken {"facts": {}}\n')
    assert replies.final == {"facts": {}}


def test_garbage_without_end_takes_no_memory():
    replies = Replies("token")
    for _ in range(1000):
        replies.feed(b"x" * 65536)
        assert len(replies._partial) <= MAX_LINE + 65536


def test_the_stack_of_a_crash_comes_before_later_lines():
    lines = ["before", "Fatal Python error: Aborted", "", *[f"  File {n}" for n in range(50)]]
    shown = last_lines("\n".join(lines).encode()).splitlines()
    assert shown[:3] == ["before", "Fatal Python error: Aborted", "  File 0"]
    assert len(shown) == 13


def test_signals_without_a_name():
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(63) == "signal 63"
