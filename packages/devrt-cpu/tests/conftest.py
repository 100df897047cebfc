"""Fixtures of the CPU backend's tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from devrt_cpu import make_cpu_client

if TYPE_CHECKING:
    from devrt_cpu._ext import CpuClient


@pytest.fixture
def client() -> Iterator[CpuClient]:
    """A client with two devices; afterwards nothing may be left of it but what a test kept."""
    with make_cpu_client(num_devices=2) as made:
        yield made
    gc.collect()
    for device in made.devices():
        assert device.live_buffers() == []


@pytest.fixture
def synchronous_client() -> Iterator[CpuClient]:
    """A client whose copies are all made before a call returns."""
    with make_cpu_client(asynchronous=False) as made:
        yield made
