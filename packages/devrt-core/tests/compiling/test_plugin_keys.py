"""What a plugin gets that asks for the keys of a job."""

import threading

import pytest

from devrt.compiling import plugin_keys
from devrt.compiling.plugin_keys import PluginKeys
from devrt.errors import DistributedError, PeerLostError, StatusCode, from_status

VALUE = b"n\xff\0x"


class Texts:
    """The methods that every store has."""

    def __init__(self):
        self.values = {}

    def key_value_set(self, key, value):
        self.values[key] = value

    def blocking_key_value_get(self, key, timeout_in_ms):
        if key not in self.values:
            raise TimeoutError(f"{key} was not set within {timeout_in_ms} ms")
        return self.values[key]


class Bytes(Texts):
    """Those that some have beside them."""

    key_value_set_bytes = Texts.key_value_set
    blocking_key_value_get_bytes = Texts.blocking_key_value_get

    def key_value_try_get_bytes(self, key):
        if key not in self.values:
            raise DistributedError(f"no {key}", code=StatusCode.NOT_FOUND)
        return self.values[key]


@pytest.mark.parametrize("kind", [Texts, Bytes])
def test_values_are_bytes_below_the_prefix(kind):
    store = kind()
    keys = PluginKeys(store, "job/3/")
    assert keys.answer("set", b"node/0", VALUE) == (0, b"")
    assert list(store.values) == ["job/3/node/0"]
    assert keys.answer("get", b"node/0", 1000) == keys.answer("try_get", b"node/0", None)
    assert keys.get("node/0", 1000) == VALUE
    code, text = keys.answer("try_get", b"nobody", None)
    assert code == StatusCode.NOT_FOUND
    assert b"nobody" in text


def test_a_wait_ends_in_time_and_with_the_process(monkeypatch):
    timeouts = []

    class Waits(Texts):
        def blocking_key_value_get(self, key, timeout_in_ms):
            timeouts.append(timeout_in_ms)
            return super().blocking_key_value_get(key, timeout_in_ms)

    keys = PluginKeys(Waits())
    code, text = keys.answer("get", b"key", 20)
    assert code == StatusCode.DEADLINE_EXCEEDED
    assert b"key was not set" in text
    assert max(timeouts) <= 20
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(plugin_keys, "_ending", ending)
    code, text = keys.answer("get", b"key", 10**8)
    assert code == StatusCode.CANCELLED
    assert b"the process ends" in text
    assert max(timeouts) <= 1000


def test_the_error_of_a_lost_process_names_it_on_the_way_back():
    class Lost(Texts):
        def blocking_key_value_get(self, key, timeout_in_ms):
            raise PeerLostError("two gave no sign", processes=(1, 3))

    code, text = PluginKeys(Lost()).answer("get", b"key", 10)
    error = from_status(code, f"execute failed: {text.decode()}")
    assert type(error) is PeerLostError
    assert error.processes == (1, 3)
    assert "two gave no sign" in error.message


def test_whatever_a_store_raises_is_an_answer():
    class Ends(Texts):
        def key_value_set(self, key, value):
            raise SystemExit(3)

    code, text = PluginKeys(Ends()).answer("set", b"\xff", b"")
    assert (code, text) == (StatusCode.INTERNAL, b"SystemExit: 3")
