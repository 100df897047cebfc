"""What a plugin without custom calls says of them; tests/integration has what both clients do."""

import pytest

import devrt_pjrt
from devrt import errors


def test_a_plugin_without_the_extension_says_so(fake):
    client = devrt_pjrt.make_client(devrt_pjrt.library_for("fake_calls", fake), "fake_calls")
    with pytest.raises(errors.UnimplementedError, match="no FFI extension"):
        client.register_custom_call("x", print)
    client.close()
    with pytest.raises(errors.ClosedError):
        client.register_custom_call("x", print)
