"""Traced, lowered and compiled functions, and what each of them says."""

import numpy as np
import pytest

import devrt
from devrt import Mesh, NamedSharding, P, ShapeDtypeStruct, jit
from devrt.errors import DevrtError, InvalidArgumentError

pytestmark = pytest.mark.engine

X = np.arange(8, dtype=np.float32)


def f(x, *, scale):
    return {"y": x * scale}


def test_lowering_needs_descriptions_only(cpu):
    lowered = jit(f).lower(ShapeDtypeStruct((8,), np.float32), scale=2.0)
    assert "func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<f32>)" in lowered.as_text()
    assert lowered.out_info == {"y": ShapeDtypeStruct((8,), np.float32)}
    assert str(lowered.in_avals[0][0]) == "float32[8]"
    assert lowered.fun_name == "f"
    compiled = lowered.compile()
    np.testing.assert_array_equal(compiled(X, scale=3.0)["y"], X * 3)
    np.testing.assert_array_equal(compiled(devrt.device_put(X), scale=np.float32(3))["y"], X * 3)


def test_a_described_array_says_how_it_lies(cpu):
    sharding = NamedSharding(Mesh(cpu, ("x",)), P("x"))
    compiled = jit(f).lower(ShapeDtypeStruct((8,), np.float32, sharding=sharding), scale=2.0)
    compiled = compiled.compile()
    assert compiled.input_shardings[0][0] == sharding
    assert compiled.output_shardings == {"y": sharding}
    made = compiled(X, scale=2.0)["y"]
    assert made.sharding == sharding
    np.testing.assert_array_equal(made, X * 2)


def test_what_the_compiler_says(cpu):
    compiled = jit(f).lower(X, scale=2.0).compile()
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 36
    assert compiled.as_text().startswith("HloModule")
    assert compiled.runtime_executable().name == "jit_f"
    assert compiled.output_formats["y"].layout.minor_to_major() == (0,)
    assert compiled.input_formats[0][0].sharding == compiled.input_shardings[0][0]
    assert "HloModule" in jit(f).lower(X, scale=2.0).as_text("hlo")


def test_a_compiled_program_refuses_other_arguments(cpu):
    compiled = jit(f).lower(X, scale=2.0).compile()
    with pytest.raises(InvalidArgumentError, match=r"argument x of program 'f'.*float32.*8"):
        compiled(X[:3], scale=2.0)
    with pytest.raises(InvalidArgumentError, match="compiled for arguments of the structure"):
        compiled(X, 2.0)


def test_text_with_the_user_s_lines(cpu):
    text = jit(f).lower(X, scale=2.0).as_text(debug_info=True)
    line = next(line for line in text.split("\n") if "stablehlo.multiply" in line)
    assert f"// {__file__}:" in line
    assert __file__ not in jit(f).lower(X, scale=2.0).as_text()
    with pytest.raises(InvalidArgumentError, match="'stablehlo' or 'hlo'"):
        jit(f).lower(X, scale=2.0).as_text("mhlo")


def test_tracing_alone(cpu):
    traced = jit(lambda x, n: x + n, static_argnums=1, donate_argnums=0).trace(X, 2)
    assert traced.donate_argnums == (0,)
    assert str(traced.out_info.shape) == "(8,)"
    np.testing.assert_array_equal(traced.lower().compile()(X), X + 2)


def test_compiled_results_say_where_they_lie(cpu):
    sharding = NamedSharding(devrt.make_mesh((8,), "x", devices=cpu), P("x"))
    compiled = jit(lambda x: x + 1).lower(devrt.device_put(X, sharding)).compile()
    assert compiled.out_info == ShapeDtypeStruct(X.shape, X.dtype, sharding=sharding)


def test_compiler_options_of_a_function_within_another_are_refused():
    inner = jit(lambda x: x + 1, compiler_options={"xla_cpu_enable_fast_math": True})
    with pytest.raises(InvalidArgumentError, match=r"compiler_options of <lambda>.*outermost jit"):
        jit(lambda x: inner(x))(X)


def test_compiler_options_reach_the_compiler(cpu):
    lowered = jit(f).lower(X, scale=2.0)
    options = {"xla_embed_ir_in_executable": True, "exec_time_optimization_effort": 0.5}
    assert lowered.compile(options)(X, scale=1.0)["y"].shape == (8,)
    with pytest.raises(DevrtError, match="no_such_option"):
        lowered.compile({"no_such_option": 1})
    with pytest.raises(DevrtError, match="no_such_option"):
        jit(f, compiler_options={"no_such_option": 1})(X, scale=1.0)


def test_a_description_takes_a_spec_over_the_entered_mesh(cpu):
    mesh = devrt.make_mesh((2,), ("x",), devices=cpu[:2])
    with devrt.set_mesh(mesh):
        described = ShapeDtypeStruct((8,), np.float32, sharding=P("x"))
    assert described.sharding == NamedSharding(mesh, P("x"))
    compiled = jit(lambda x: x + 1).lower(described).compile()
    assert compiled.input_shardings[0][0] == described.sharding
    with pytest.raises(InvalidArgumentError, match=r"ShapeDtypeStruct got .* no mesh is entered"):
        ShapeDtypeStruct((8,), np.float32, sharding=P("x"))
