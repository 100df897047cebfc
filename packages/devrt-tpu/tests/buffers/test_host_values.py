"""What the loader takes from the host, and what its arrays show there."""

import numpy as np
import pytest

from devrt.errors import InvalidTypeError
from support import python


@pytest.mark.parametrize("library", ["numpy", "polars", "pandas", "pyarrow"])
def test_missing_elements_are_refused(xla_cpu, library):
    module = pytest.importorskip(library)
    make = {
        "numpy": lambda: module.ma.array([1.0, 2.0], mask=[0, 1]),
        "polars": lambda: module.Series([1.0, None]),
        "pandas": lambda: module.Series([1, None], dtype="Int64"),
        "pyarrow": lambda: module.array([1.0, None]),
    }[library]
    device = xla_cpu.devices()[0]
    for put in (
        lambda x: xla_cpu.buffer_from_pyval(x, device),
        lambda x: xla_cpu.buffers_from_pyvals([x], [device]),
    ):
        with pytest.raises(InvalidTypeError, match=r"1 of its elements .* mask"):
            put(make())
    whole = np.ma.array([1.0, 2.0], mask=[0, 0])
    np.testing.assert_array_equal(xla_cpu.buffer_from_pyval(whole, device), [1.0, 2.0])


ALONE = """
import hashlib, sys
import numpy as np
import devrt
from devrt.errors import DeletedError
import devrt_pjrt as pjrt

client = pjrt.make_client(pjrt.library_for("xla", {path!r}), "xla", {{}})
x = np.arange(6, dtype=np.float32).reshape(2, 3)
a = devrt.device_put(x, client.devices()[0])
assert memoryview(a).tolist() == x.tolist()
assert bytes(a) == x.tobytes()
assert hashlib.sha256(a).digest() == hashlib.sha256(x).digest()
a.delete()
try:
    bytes(a)
except DeletedError:
    print("output so", "devrt_cpu" in sys.modules)
"""


def test_arrays_have_the_buffer_protocol_without_another_backend(xla_cpu_library):
    done = python(ALONE.format(path=xla_cpu_library), options=())
    assert done.stdout.strip() == "output so False", done.stderr
