"""Which serialised executables are not loaded, however whole they are."""

import pytest

from devrt.errors import UnimplementedError

pytestmark = pytest.mark.engine


def test_a_serialised_program_that_waits_for_the_host_is_not_loaded(client, monkeypatch):
    program = """func.func @main(%a: tensor<f32>) {
      %t = stablehlo.create_token : !stablehlo.token
      "stablehlo.outfeed"(%a, %t) : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
      return }"""
    monkeypatch.setattr("devrt.native.engine.check", lambda *_: None)
    data = client.compile_and_load(program).serialize()
    with pytest.raises(UnimplementedError, match=r"exchanges data with the host.*outfeed"):
        client.deserialize_executable(data)


def test_a_program_with_such_a_name_is_loaded(client):
    program = """module @infeed {
      func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> } }"""
    assert client.deserialize_executable(client.compile_and_load(program).serialize()).name
