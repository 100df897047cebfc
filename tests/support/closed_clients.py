"""A client that is used as a program would, and closed."""

import weakref

import numpy as np

import devrt


@devrt.jit
def doubled(x):
    return x * 2


def used(client):
    """Run an operator and a function that stays, and close the client; return who knows of it."""
    x = devrt.device_put(np.ones(4, np.float32), client.local_devices()[0])
    for _ in range(3):  # the third is found in the table
        assert np.asarray(x + 1).tolist() == [2] * 4
        assert np.asarray(doubled(x)).tolist() == [2] * 4
    client.close()
    return weakref.ref(client)
