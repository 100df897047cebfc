"""A native part of another version than the Python part, as after an update without a build."""

import pytest

import devrt_pjrt
from devrt.errors import PluginLoadError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.loader import Loader


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda: ffi.typeof("devrt_later *"), "undefined type name devrt_later"),
        (lambda: lib.devrt_later, "named 'devrt_later'"),
    ],
)
def test_what_it_lacks_says_to_build_it_again(monkeypatch, ask, named):
    monkeypatch.setattr(devrt_pjrt, "library_for", lambda *_, **__: ask())
    with pytest.raises(PluginLoadError, match="of another version than its Python part") as raised:
        Loader().make_topology("/x.so", "acme", "1x1", {})
    assert named in str(raised.value)
    assert "pip install --upgrade ./packages/devrt-tpu" in raised.value.remedy
    assert raised.value.upgrade == "devrt-tpu"
    assert hasattr(raised.value, "built_abi"), "the doctor knows such errors by it"


def test_other_errors_stay_what_they_are(monkeypatch):
    def fail(*_, **__):
        raise AttributeError("another")

    monkeypatch.setattr(devrt_pjrt, "library_for", fail)
    with pytest.raises(AttributeError, match="another"):
        Loader().make_topology("/x.so", "acme", "1x1", {})
