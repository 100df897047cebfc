"""Flags in ``XLA_FLAGS`` that XLA would end the process over."""

import pytest

from support import python

pytestmark = pytest.mark.engine

PROGRAM = "func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"
COMPILE = f"""
import devrt, subprocess
children = []
start = subprocess.Popen
subprocess.Popen = lambda *a, **k: children.append(a) or start(*a, **k)
client = devrt.devices("cpu")[0].client
for _ in range(2):
    try:
        client.compile_and_load({PROGRAM!r})
        print("compiled", len(children))
    except devrt.errors.ConfigError as error:
        print(error, error.source, sep="|")
"""
REFUSED = [
    ("--xla_force_host_platform_device_counts=8", "--xla_force_host_platform_device_counts=8"),
    ("--xla_force_host_platform_device_count 8", "--xla_force_host_platform_device_count"),
    ("--xla_nonsense=1", "--xla_nonsense=1"),
    ("--xla_cpu_enable_fast_math=maybe", "maybe for flag xla_cpu_enable_fast_math"),
]


def _run(code, flags):
    environ = {"XLA_FLAGS": flags, "DEVRT_ENABLE_COMPILATION_CACHE": 0}
    return python(code, status=None, clean=("DEVRT_", "JAX_"), **environ)


@pytest.mark.parametrize(("flags", "named"), REFUSED)
def test_a_flag_that_xla_refuses_is_an_error(flags, named):
    done = _run(COMPILE, flags)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        message, _, source = line.partition("|")
        assert source == "environment variable XLA_FLAGS"
        assert named in message
        assert "or unset it" in message


@pytest.mark.parametrize(
    ("flags", "children"),
    [
        ("", 0),
        ("--xla_force_host_platform_device_count=2", 0),
        ("--xla_force_host_platform_device_count=2 --xla_cpu_enable_fast_math=false", 1),
    ],
)
def test_flags_that_xla_takes_cost_one_child_at_most(flags, children):
    done = _run(COMPILE, flags)
    assert done.stdout == f"compiled {children}\n" * 2, done.stderr
