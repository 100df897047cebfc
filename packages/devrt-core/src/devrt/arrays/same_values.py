"""Whether the processes of a job put the same host value on a sharding over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from devrt.distributed.faults import named
from devrt.distributed.state import global_state
from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing import Any

    from devrt.sharding import Sharding

__all__ = ["check_same"]


def check_same(x: np.ndarray[Any, Any], sharding: Sharding, operation: str) -> None:
    """Refuse, in every process, a value that is not the same in each.

    Where a sharding has devices of some of the job's processes alone nothing is compared, as in
    JAX: the others need not come here.
    """
    job = global_state
    owners = {device.process_index for device in sharding._device_assignment}
    if job.client is None or len(owners) != job.num_processes:
        return
    from devrt.distributed.collectives import of_job  # only jobs of several processes need it

    form = np.frombuffer(f"{x.shape} {x.dtype} ".encode(), np.uint8)
    data = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
    others = of_job().compare(operation, np.concatenate([form, data]))
    if others:
        msg = (
            f"{operation} has a value of shape {x.shape} and dtype {x.dtype} in process "
            f"{job.process_id} that is not the same in {named(others)}, and an array over their "
            "devices has one value. Pass the same in every process, or each process's part to "
            "devrt.make_array_from_process_local_data."
        )
        raise InvalidArgumentError(msg, operation=operation, processes=tuple(others))
