"""Programs that would never end are refused when they are compiled, by both clients."""

from pathlib import Path

import pytest

from devrt.errors import UnimplementedError
from support import make_client

BYTECODE = Path(__file__).parents[2] / "packages" / "devrt-core" / "tests" / "bytecode"
INFEED = """module @fed {
  func.func @main(%a: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.create_token : !stablehlo.token
    %1:2 = "stablehlo.infeed"(%0) {infeed_config = "", layout = [[]]}
      : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)
    return %1#0 : tensor<i32>
  }
}"""
OUTFEED = """module @feeds {
  func.func private @inner(%a: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.create_token : !stablehlo.token
    %1 = "stablehlo.outfeed"(%a, %0) {outfeed_config = ""}
      : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
    return %a : tensor<i32>
  }
  func.func @main(%a: tensor<i32>) -> tensor<i32> {
    %0 = call @inner(%a) : (tensor<i32>) -> tensor<i32>
    return %0 : tensor<i32>
  }
}"""


@pytest.fixture(scope="module", params=["cpu", "loader"])
def client(request, cpu_library):
    """Return a client of each kind."""
    with make_client(request.param) as made:
        yield made


@pytest.mark.parametrize(
    ("program", "line"), [(INFEED, 4), (OUTFEED, 4)], ids=["infeed", "outfeed"]
)
def test_text_that_waits_for_the_host(client, program, line):
    with pytest.raises(UnimplementedError, match=rf"line {line}: stablehlo\.(in|out)feed"):
        client.compile_and_load(program)


@pytest.mark.parametrize("name", ["infeed", "outfeed", "infeed_not_portable"])
def test_bytecode_that_waits_for_the_host(client, name):
    with pytest.raises(UnimplementedError, match=r"bytecode: stablehlo\.(in|out)feed"):
        client.compile_and_load((BYTECODE / f"{name}.mlirbc").read_bytes())


@pytest.mark.parametrize("name", ["send", "recv"])
def test_the_compiler_refuses_what_else_would_wait(client, name):
    takes, gives = ("%a, ", "!stablehlo.token") if name == "send" else ("", None)
    types = "(tensor<i32>, !stablehlo.token)" if takes else "(!stablehlo.token)"
    program = f"""module @{name} {{ func.func @main(%a: tensor<i32>) -> tensor<i32> {{
      %0 = stablehlo.create_token : !stablehlo.token
      %1{"" if gives else ":2"} = "stablehlo.{name}"({takes}%0) {{is_host_transfer = true,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = {2 if gives else 3}>}}
        : {types} -> {gives or "(tensor<i32>, !stablehlo.token)"}
      return %a : tensor<i32> }} }}"""
    with pytest.raises(UnimplementedError, match=name):
        client.compile_and_load(program)
