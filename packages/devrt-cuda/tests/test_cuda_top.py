"""``devrt top`` beside a process that uses simulated devices."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")

HELD = {"device": 3 << 20, "pinned_host": 1 << 20, "managed": 2 << 20}
HOLDER = """
    import json, sys
    import numpy as np
    import devrt

    device = devrt.devices("cuda")[1]
    held = [
        devrt.device_put(np.zeros(size, np.uint8), device.memory(kind)).block_until_ready()
        for kind, size in json.loads(sys.argv[1]).items()
    ]
    print("ready", flush=True)
    sys.stdin.read()
"""


def run(*arguments, **environ):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DEVRT_")}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *arguments],
        env=kept | environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_memory_of_a_client_elsewhere_is_shown_by_kind_where_it_shows_that():
    code = ("-c", textwrap.dedent(HOLDER), json.dumps(HELD))
    with (
        run(*code, DEVRT_CUDA_MOCK="2", DEVRT_SHOW_IN_TOP="1") as shown,
        run(*code, DEVRT_CUDA_MOCK="2") as hidden,
    ):
        assert [each.stdout.readline() for each in (shown, hidden)] == ["ready\n"] * 2
        with run("-m", "devrt", "top", "--mock", "cuda:2", "--json") as top:
            clients = json.loads(top.communicate()[0])["clients"]
        for each in (shown, hidden):
            each.communicate()
    assert shown.returncode == 0
    assert hidden.pid not in [row["pid"] for row in clients]
    first, second = (row for row in clients if row["pid"] == shown.pid)
    assert first["memory"] == dict.fromkeys((*HELD, "unpinned_host"), 0)
    assert second["memory"] == {**HELD, "unpinned_host": 0}
    assert (second["client"], second["id"], second["device"]) == ("cuda@devrt-cuda", 1, None)
