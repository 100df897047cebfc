"""Programs that the compiler or the compiled program would end the process on, refused before."""

import pytest

from devrt.errors import UnimplementedError

pytestmark = pytest.mark.engine

QUANTISED = "tensor<2x2x!quant.uniform<i8:f32, 2.0:15>>"
PROGRAMS = {
    "quantised_types": f"""func.func @main(%a: {QUANTISED}) -> {QUANTISED} {{
      %0 = stablehlo.dot %a, %a : ({QUANTISED}, {QUANTISED}) -> {QUANTISED}
      return %0 : {QUANTISED} }}""",
    "all_to_all_without_groups": """func.func @main(%a: tensor<4x8xf32>) -> tensor<8x4xf32> {
      %0 = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64,
        split_count = 2 : i64, replica_groups = dense<0> : tensor<0x2xi64>
      } : (tensor<4x8xf32>) -> tensor<8x4xf32>
      return %0 : tensor<8x4xf32> }""",
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_ends_the_process_is_refused(client, what, cpu_quirks):
    if what not in cpu_quirks:
        pytest.skip("this compiler takes it")
    quirk = cpu_quirks[what]
    with pytest.raises(UnimplementedError, match=rf"line \d: {quirk.library} .* {quirk.effect}"):
        client.compile_and_load(PROGRAMS[what])
