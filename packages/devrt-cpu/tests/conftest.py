"""Fixtures of the CPU backend's tests."""

import gc

import pytest

from devrt_cpu import make_cpu_client


@pytest.fixture
def client():
    """A client with two devices; afterwards nothing may be left of it but what a test kept."""
    with make_cpu_client(num_devices=2) as made:
        yield made
    gc.collect()
    for device in made.devices():
        assert device.live_buffers() == []


@pytest.fixture
def synchronous_client():
    """A client whose copies are all made before a call returns."""
    with make_cpu_client(asynchronous=False) as made:
        yield made
