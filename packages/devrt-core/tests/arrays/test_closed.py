"""After a client is closed every error names what was attempted, on the CPU and in the loader."""

import numpy as np
import pytest

import devrt
from devrt.errors import ClosedError
from devrt.programs import load_program
from support import make_client

TEXT = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
X = np.ones(4, np.float32)


@pytest.mark.parametrize("kind", ["cpu", "loader"])
def test_an_error_names_what_was_attempted(kind):
    client = make_client(kind)
    device = client.devices()[0]
    array, buffer = devrt.device_put(X, device), client.buffer_from_pyval(X, device)
    program = load_program(TEXT, client)
    executable = program.executable
    attempts = {
        "compile_and_load": lambda: client.compile_and_load(TEXT),
        "buffer_from_pyval": lambda: devrt.device_put(X, device),
        "execute": lambda: executable.execute([buffer]),
        "block_until_ready": array.block_until_ready,
        "__array__": lambda: np.asarray(array),
        "__dlpack__|__array__": lambda: np.from_dlpack(buffer),
        "cost_analysis": executable.cost_analysis,
        "get_hlo_text|optimized_program": executable.get_hlo_text,
        "serialize": executable.serialize,
    }
    client.close()
    for names, attempt in attempts.items():
        with pytest.raises(ClosedError) as caught:
            attempt()
        assert caught.value.operation in names.split("|"), names
        assert str(caught.value).startswith(f"{caught.value.operation} failed: ")
    with pytest.raises(ClosedError):
        program(array)
