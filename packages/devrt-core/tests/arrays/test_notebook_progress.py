"""The progress of transfers in a notebook, where there is no terminal for a bar."""

import sys
import types

import numpy as np
import pytest

import devrt
from devrt_acme.client import AcmeClient


@pytest.fixture
def acme():
    """A simulated backend's client, closed afterwards."""
    client = AcmeClient(2)
    yield client
    client.close()


def test_a_notebook_gets_a_bar_that_is_updated(acme, monkeypatch):
    shown = []
    display = types.ModuleType("IPython.display")
    display.HTML = str
    handle = types.SimpleNamespace(update=shown.append)
    display.display = lambda html, display_id: shown.append(html) or handle
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    device = acme.devices()[0]
    devrt.device_put([np.zeros(1000), np.zeros(1000)], device, progress=True)
    assert shown[0] == "device_put"
    assert shown[-1] == (
        '<progress value="16000" max="16000"></progress> device_put 2/2, 0.0 of 0.0 MB'
    )
