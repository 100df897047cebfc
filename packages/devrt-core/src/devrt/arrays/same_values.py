"""Whether the processes of a job put the same host value on a sharding over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.runtime import default_runtime

if TYPE_CHECKING:
    from typing import Any

    from devrt.sharding import Sharding

__all__ = ["check_same"]


def check_same(x: np.ndarray[Any, Any], sharding: Sharding, operation: str) -> None:
    """Refuse, in every process, a value that is not the same in each.

    Where a sharding has devices of some of the job's processes alone nothing is compared, as in
    JAX: the others need not come here.
    """
    job = default_runtime().job
    if job is None or job.compare is None:
        return
    owners = {device.process_index for device in sharding._device_assignment}
    if len(owners) != job.num_processes:
        return
    form = np.frombuffer(f"{x.shape} {x.dtype} ".encode(), np.uint8)
    data = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    others = job.compare(operation, np.concatenate([form, data]))
    if others:
        msg = (
            f"{operation} has a value of shape {x.shape} and dtype {x.dtype} in process "
            f"{job.process_id} that is not the same in {_named(others)}, and an array over their "
            "devices has one value. Pass the same in every process, or each process's part to "
            "devrt.make_array_from_process_local_data."
        )
        raise InvalidArgumentError(msg, operation=operation, processes=tuple(others))


def _named(processes: list[int]) -> str:
    return f"process{'es' * (len(processes) > 1)} {', '.join(map(str, processes))}"
