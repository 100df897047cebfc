"""Clients that were closed, of each kind: nothing that devrt keeps for the next call keeps them."""

import pytest

from support import make_client, python

pytestmark = pytest.mark.engine

# In its own process: threads of other tests may be collecting, and then collect() does nothing.
USES = """
    import gc, os, sys
    from closed_clients import used
    from support import make_client

    used(make_client(sys.argv[1]))
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    clients = [used(make_client(sys.argv[1])) for _ in range(4)]
    gc.collect()
    print([each() for each in clients], len(os.listdir("/proc/self/task")) <= before)
"""


@pytest.mark.parametrize("kind", ["cpu", "loader"])
def test_a_closed_client_keeps_no_threads(kind):
    make_client(kind).close()  # skips where it cannot be made
    done = python(USES, kind)
    assert (done.stdout, done.stderr) == ("[None, None, None, None] True\n", "")
