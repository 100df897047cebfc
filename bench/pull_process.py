"""One process of a pull: ``python -m bench.pull_process SIDE serve|pull STREAMS [ADDRESS]``.

Lines of its input are requests, and each is answered by a line of JSON: ``SIZE FIRST COUNT`` has a
server offer as many arrays of a size under the numbers from the first on, and the other process
pull them one after the other and report what each took. On the sides ``devrt`` and ``jax`` they
are arrays on a device; on the others bytes in memory of the process's own.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from time import perf_counter
from typing import Any

HOST = "127.0.0.1"


def main() -> None:
    """Run the process that the command line describes."""
    side, role, streams, *address = sys.argv[1:]
    module = import_module(f"bench.pulls.{side}")
    if role == "serve":
        server = module.Server(int(streams))
        _answer(address=server.address, version=module.version())
    else:
        puller = module.Puller(address[0], int(streams))
        _answer(ready=True)
    for line in sys.stdin:
        size, first, count = map(int, line.split())
        if role == "serve":
            server.offer(size, first, count)
            _answer(ready=True)
        else:
            _answer(
                seconds=[_timed(puller, number, size) for number in range(first, first + count)]
            )


def _timed(puller: Any, number: int, size: int) -> float:
    start = perf_counter()
    found = puller.pull(number, size)
    taken = perf_counter() - start
    last = puller.last(found)
    if last != (size - 1) % 251:
        raise ValueError(f"the last of {size} bytes is {last}")
    return taken


def _answer(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
