"""Clients that were closed, of each kind: nothing that devrt keeps for the next call keeps them."""

import gc
import os
import weakref

import numpy as np
import pytest

import devrt
from support import make_client

pytestmark = pytest.mark.engine


@devrt.jit
def doubled(x):
    return x * 2


def used(kind):
    """Make a client, run an operator and a function that stays, and close it."""
    client = make_client(kind)
    x = devrt.device_put(np.ones(4, np.float32), client.local_devices()[0])
    for _ in range(3):  # the third is found in the table
        assert np.asarray(x + 1).tolist() == [2] * 4
        assert np.asarray(doubled(x)).tolist() == [2] * 4
    client.close()
    return weakref.ref(client)


@pytest.mark.parametrize("kind", ["cpu", "loader"])
def test_a_closed_client_keeps_no_threads(kind):
    used(kind)
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    clients = [used(kind) for _ in range(4)]
    gc.collect()
    assert [each() for each in clients] == [None] * 4
    assert len(os.listdir("/proc/self/task")) <= before
