"""One process of a job that reduces.

``python -m bench.reduce_process SIDE ADDRESS COUNT NUMBER BYTES...`` joins the job, reduces arrays
of so many bytes, one on each process's device, by a program with a ``psum``, and prints the seconds
of one call of each size: the median, each waited for. ``4x8`` are four arrays of 8 bytes, by one
program with four.
"""

from __future__ import annotations

import json
import sys
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

_LEAST, _MOST = 3, 100
_BYTES = 64 << 20  # of all calls of one size, between those bounds


def main() -> None:
    """Run the process that the command line describes."""
    side, address, count, number, *sizes = sys.argv[1:]
    api, lax, sharding = _joined(side, address, int(count), int(number))
    mesh = sharding.Mesh(np.array(api.devices()), ("i",))
    rows = sharding.NamedSharding(mesh, sharding.PartitionSpec("i"))
    mapped = api.shard_map(
        lambda xs: [lax.psum(x, "i") for x in xs],
        mesh=mesh,
        in_specs=sharding.PartitionSpec("i"),
        out_specs=sharding.PartitionSpec(),
    )
    program = api.jit(mapped)
    found = {}
    for size in sizes:
        times, nbytes = map(int, size.split("x") if "x" in size else (1, size))
        block = np.full((1, nbytes // 4), int(number), np.float32)
        xs = [api.make_array_from_process_local_data(rows, block) for _ in range(times)]
        found[size] = _seconds(
            lambda xs=xs: [y.block_until_ready() for y in program(xs)], times * nbytes
        )
        for y in program(xs):
            total = np.asarray(y.addressable_shards[0].data)
            assert total[0, 0] == sum(range(int(count)))
    print(json.dumps(found), flush=True)
    api.distributed.shutdown()


def _joined(side: str, address: str, count: int, number: int) -> tuple[Any, Any, Any]:
    if side == "devrt":
        import devrt
        import devrt.sharding
        from devrt import distributed, lax

        distributed.initialize(address, count, number)
        return devrt, lax, devrt.sharding
    import jax
    import jax.sharding

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, count, number)
    return jax, jax.lax, jax.sharding


def _seconds(call: Any, nbytes: int) -> float:
    """Return the median of calls, whose number is the size's: the same in every process."""
    call()
    call()
    times = []
    for _ in range(min(_MOST, max(_LEAST, _BYTES // nbytes))):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return median(times)


if __name__ == "__main__":
    main()
