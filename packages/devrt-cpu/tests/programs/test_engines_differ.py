"""What one engine does and another does not: nothing that works is refused."""

import numpy as np
import pytest

from devrt.compiling.xla_cpu_engines import ENGINES
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt_cpu import _library, make_cpu_client

pytestmark = pytest.mark.engine

OLDEST, MIDDLE, NEWEST = (engine.wheel for engine in reversed(ENGINES))

HIGH_HALVES = """func.func @main(%a: tensor<3xi8>) -> tensor<3xi8> {
  %0 = chlo.mulhi %a, %a : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>
  return %0 : tensor<3xi8> }"""
SCAN = """func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = chlo.scan(%a) inits (%zero) dimension=0 {
  ^bb0(%input: tensor<i32>, %carry: tensor<i32>):
    %1 = stablehlo.add %input, %carry : tensor<i32>
    stablehlo.return %1, %1 : tensor<i32>, tensor<i32>
  } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
  return %0#0 : tensor<4xi32> }"""
# A program, its argument, its result, and the engines that refuse it, in their words or devrt's.
CASES = {
    "chlo.mulhi": (
        HIGH_HALVES,
        np.array([64, -64, 127], np.int8),
        [16, 16, 63],
        {OLDEST: "'chlo.mulhi'", MIDDLE: "'chlo.mulhi'"},
    ),
    "chlo.scan": (
        SCAN,
        np.arange(1, 5, dtype=np.int32),
        [1, 3, 6, 10],
        {OLDEST: "scan", MIDDLE: "scan"},
    ),
}


@pytest.mark.parametrize("wheel", [OLDEST, MIDDLE, NEWEST])
@pytest.mark.parametrize("name", CASES)
def test_what_an_engine_can_do_is_not_refused_there(wheel, name):
    if wheel not in {library.wheel for library in _library.installed()}:
        pytest.skip(f"{wheel} is not installed")
    program, argument, expected, refused_by = CASES[name]
    with make_cpu_client(cpu_engine=wheel) as client:
        x = client.buffer_from_pyval(argument)
        if wheel in refused_by:
            with pytest.raises((InvalidArgumentError, UnimplementedError), match=refused_by[wheel]):
                client.compile_and_load(program)
        else:
            (result,) = client.compile_and_load(program).execute([x])
            assert np.asarray(result).tolist() == expected
