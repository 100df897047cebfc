"""Jobs of real processes whose GPUs are simulated ones."""

import json
import os
import socket
import subprocess
import sys

from support import FOLDER

START = """
import json, os, signal, sys, warnings
import numpy as np
import devrt
from devrt.errors import DevrtError
warnings.simplefilter("ignore", devrt.errors.DevrtWarning)  # the platform is experimental
address, size, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
devrt.distributed.initialize(address, size, me, heartbeat_timeout_seconds=3)
store = devrt.distributed.global_state.client
devices = devrt.devices(os.environ.get("PLATFORM", "cuda"))
client = devices[0].client

def put(values, group):
    return [devrt.device_put(values[rank], group.devices[rank]) for rank in group.ranks]

def outcome(function):
    try:
        return [float(np.asarray(each).flat[0]) for each in function()]
    except DevrtError as error:
        return [type(error).__name__, list(getattr(error, "processes", ())), str(error)]

def show(*values):
    print(json.dumps(values), flush=True)
"""


def run_job(body, processes=2, devices=2, first_only=False, **environ):
    """Run a job of real processes; return what each of them prints, a list of lines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-c", START + body, address, str(processes)]
    path = os.pathsep.join(filter(None, [FOLDER, os.environ.get("PYTHONPATH")]))
    environ = {
        **os.environ,
        "PYTHONPATH": path,
        "DEVRT_CUDA_MOCK": f"{processes}x{devices}",
        "DEVRT_ROCM_MOCK": f"{processes}x{devices}",
        **environ,
    }
    started = [
        subprocess.Popen(
            [*command, str(me)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(processes)
    ]
    try:
        printed = []
        for process in started[: 1 if first_only else None]:
            out, errors = process.communicate(timeout=120)
            assert process.returncode == 0, [errors, *(o.communicate()[1] for o in started[1:])]
            assert not errors, errors
            printed.append([json.loads(line) for line in out.splitlines()])
        return printed
    finally:
        for process in started:
            process.kill()
            process.communicate()
