"""Clients that were closed, of each kind: nothing that devrt keeps for the next call keeps them."""

import pytest

from support import make_client, python

pytestmark = pytest.mark.engine

# In its own process: threads of other tests may be collecting, and then collect() does nothing.
USES = """
    import gc, os, sys, weakref
    import numpy as np
    import devrt
    from support import make_client

    @devrt.jit
    def doubled(x):
        return x * 2

    def used():
        client = make_client(sys.argv[1])
        x = devrt.device_put(np.ones(4, np.float32), client.local_devices()[0])
        for _ in range(3):  # the third is found in the table
            assert np.asarray(x + 1).tolist() == [2] * 4
            assert np.asarray(doubled(x)).tolist() == [2] * 4
        client.close()
        return weakref.ref(client)

    used()
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    clients = [used() for _ in range(4)]
    gc.collect()
    print([each() for each in clients], len(os.listdir("/proc/self/task")) <= before)
"""


@pytest.mark.parametrize("kind", ["cpu", "loader"])
def test_a_closed_client_keeps_no_threads(kind):
    make_client(kind).close()  # skips where it cannot be made
    done = python(USES, kind)
    assert (done.stdout, done.stderr) == ("[None, None, None, None] True\n", "")
