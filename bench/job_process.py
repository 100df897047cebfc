"""One process of a job: ``python -m bench.job_process SIDE ROLE ADDRESS COUNT [NUMBER]``.

The role ``forked`` is all clients of a job, forked from a process that has imported the library,
the client too: they connect at once, and the slowest's time is printed.

The service prints its address and waits for its input to close, then prints its resident memory. A
client connects, meets the others and writes keys, and prints what that took; its clock runs
between meetings of all, so what one process prints is the whole job's.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

MEETINGS = 50
PAIRS = 200
VALUE = b"v" * 64
_MODULES = {"devrt": "devrt.xla_client", "jax": "jaxlib._jax"}
_MILLISECONDS = 120_000


def main() -> None:
    """Run the process that the command line describes."""
    side, role, address, count, *number = sys.argv[1:]
    module = import_module(_MODULES[side])
    if role == "service":
        _serve(module, address, int(count))
    elif role == "forked":
        print(json.dumps(_bring_up(module, address, int(count))), flush=True)
    else:
        print(json.dumps(_work(module, address, int(number[0]))), flush=True)


def _serve(module: Any, address: str, count: int) -> None:
    service = module.get_distributed_runtime_service(address, count)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.read()
    print(json.dumps({"bytes": _resident_bytes()}), flush=True)
    service.shutdown()


def _work(module: Any, address: str, number: int) -> dict[str, float]:
    client = module.get_distributed_runtime_client(address, number, init_timeout=120)
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()  # every process has imported its library
    start = perf_counter()
    client.connect()
    connected = perf_counter()
    client.wait_at_barrier("begin", _MILLISECONDS)
    began = perf_counter()
    for i in range(MEETINGS):
        client.wait_at_barrier(f"meeting{i}", _MILLISECONDS)
    met = perf_counter()
    for i in range(PAIRS):
        key = f"{number}/{i}"
        client.key_value_set_bytes(key, VALUE)
        assert client.blocking_key_value_get_bytes(key, _MILLISECONDS) == VALUE
    client.wait_at_barrier("end", _MILLISECONDS)
    written = perf_counter()
    client.shutdown()
    return {
        "connect": connected - start,
        "barrier": (met - began) / MEETINGS,
        "pair": (written - met) / PAIRS,
    }


def _bring_up(module: Any, address: str, count: int) -> dict[str, float]:
    """Return how long the slowest of many processes takes to connect."""
    make = module.get_distributed_runtime_client  # of devrt, what it needs is imported here
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    read, write = os.pipe()
    start = perf_counter()
    children = [_forked(make, address, number, write) for number in range(count)]
    os.close(write)
    with open(read, encoding="ascii") as lines:
        seconds = [float(line) - start for line in lines]
    for child in children:
        os.waitpid(child, 0)
    if len(seconds) < count:
        raise SystemExit(f"{count - len(seconds)} of {count} processes did not connect")
    return {"connect": max(seconds)}


def _forked(make: Any, address: str, number: int, write: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        client = make(address, number, init_timeout=300)
        client.connect()
        os.write(write, f"{perf_counter()}\n".encode())  # the clock is the machine's
        client.shutdown()
    finally:
        os._exit(0)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


if __name__ == "__main__":
    main()
