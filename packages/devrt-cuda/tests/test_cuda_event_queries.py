"""How often the driver is queried for the end of work that depends on other devices."""

from support import python

PROGRAM = """
import devrt
import numpy as np
from devrt.contract import Assembly, Piece
from gpu_library import Driver

devices = devrt.devices("cuda")
count, rows = len(devices), 1 << 10
whole = np.arange(rows * count * count, dtype=np.int32).reshape(rows * count, count)
offsets = [(rows * n, 0) for n in range(count)]
client = devices[0].client
held = client.batched_buffer_from_pyval(whole, devices, offsets, (rows, count))
columns = tuple(
    tuple(Piece(n, (0, m), (rows * n, 0), (rows, 1)) for n in range(count)) for m in range(count)
)
assembly = Assembly((rows * count, 1), count, columns, tuple(range(count)))
for _ in range(3):
    for number, made in enumerate(client.assemble_buffers(held, assembly, devices)):
        assert (np.asarray(made) == whole[:, number : number + 1]).all()
print(Driver().calls("cuEventQuery"))
"""


def test_the_end_of_work_of_eight_devices_is_looked_up_once():
    environ = {"DEVRT_CUDA_MOCK": "8", "DEVRT_PLATFORMS": "cuda"}
    ran = python(PROGRAM, options=("-W", "ignore"), **environ)
    # Looked up anew for all that each depends on: over 500,000.
    assert 0 < int(ran.stdout) < 100_000
