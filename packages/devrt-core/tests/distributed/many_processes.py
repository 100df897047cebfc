"""Many processes of one job, forked from one that has imported all, so that each is small.

``many_processes.py ADDRESS NUMBER...``: each process prints one line of JSON for its number.
"""

import json
import os
import sys

import grpc.aio  # noqa: F401  before the forks; nothing of it runs yet

from devrt import xla_client
from devrt.distributed.protocol.messages import message

WAIT = 600  # seconds


def main():
    message("RegisterTaskRequest")
    address, *numbers = sys.argv[1:]
    children = [started(address, int(number)) for number in numbers]
    for child in children:
        os.waitpid(child, 0)


def started(address, number):
    child = os.fork()
    if not child:
        row = json.dumps(outcome(address, number)) + "\n"
        os.write(1, row.encode())  # at once: others write, too
        os._exit(0)
    return child


def outcome(address, number):
    """Connect, meet the others and leave; return what happened."""
    how = {"init_timeout": WAIT, "shutdown_timeout": WAIT, "heartbeat_timeout": WAIT}
    client = xla_client.get_distributed_runtime_client(address, number, **how)
    try:
        client.connect()
        client.wait_at_barrier("all", WAIT * 1000)
        client.shutdown()
    except RuntimeError as error:
        return {"error": type(error).__name__, "missing": getattr(error, "missing", str(error))}
    return {"error": None}


main()
