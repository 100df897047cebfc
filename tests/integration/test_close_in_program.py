"""A client that a function of its own program closes: an error at once, in both clients."""

import pytest

from support import python

pytestmark = pytest.mark.engine

_CLIENTS = {
    "native": "from devrt_cpu import make_cpu_client\nclient = make_cpu_client(num_devices=1)\n",
    "loader": """
from devrt_cpu._library import choose
import devrt_pjrt as pjrt
path = choose().path
client = pjrt.make_client(pjrt.library_for("loaded", path), "loaded")
""",
}
_CLOSES = """
import numpy as np
from devrt.errors import DevrtError, StatusCode
def close(a):
    try:
        client.close()
    except DevrtError as error:
        assert error.code is StatusCode.FAILED_PRECONDITION, error.code
        print(error.operation, "one of the client's programs" in str(error))
    return a
client.register_custom_call("closes", close)
for size in (4, 65536):
    shape = f"tensor<{size}xf32>"
    run = client.compile_and_load(f'''func.func @main(%a: {shape}) -> {shape} {{
      %r = stablehlo.custom_call @closes(%a) {{api_version = 4 : i32}} : ({shape}) -> {shape}
      return %r : {shape} }}''')
    y, = run.execute([client.buffer_from_pyval(np.zeros(size, "float32"))])
    print(np.asarray(y).size)
client.close()
print(client.is_closed)
"""


@pytest.mark.parametrize("client", list(_CLIENTS))
def test_a_function_that_a_program_runs_cannot_close_its_client(client):
    done = python(_CLIENTS[client] + _CLOSES, options=(), timeout=60)
    expected = ["close True", "4", "close True", "65536", "True"]
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")
