"""The plugin: light to import, registered by an entry point, and true in what it says."""

from importlib import metadata

import numpy as np
import pluggy
import pytest

from devrt import hookspecs
from devrt.errors import DevrtWarning
from devrt.records import CACHE_OPTIONS, Available, ClientContext, MemoryKind
from devrt_cpu import plugin
from support import python


def test_importing_the_plugin_loads_nothing_native():
    code = (
        "import sys, devrt_cpu.plugin as p; p._probe();"
        "list(p.devrt_client_factories()); list(p.devrt_memory_kinds());"
        "slow = {'numpy', 'ml_dtypes', 'devrt_cpu._ext', 'nanobind_backend'};"
        "print(sorted(slow & set(sys.modules)))"
    )
    assert python(code).stdout == "[]\n"


def test_hooks_fit_their_specifications():
    manager = pluggy.PluginManager(hookspecs.PROJECT_NAME)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin)
    manager.check_pending()
    ((factory,),) = manager.hook.devrt_client_factories()
    (kinds,) = manager.hook.devrt_memory_kinds()
    assert (factory.platform, factory.priority) == ("", 0)  # the entry point has the name
    names = ["num_cpu_devices", "cpu_memory_limit", "cpu_execution_timeout"]
    names += ["cpu_engine", "traceback_in_buffers"]
    names += [option.name for option in CACHE_OPTIONS]
    assert [o.name for o in factory.options] == names
    assert isinstance(factory.probe(), Available)
    options = {"num_cpu_devices": 3}
    with factory.factory(ClientContext(options=options, memory_kinds=tuple(kinds))) as client:
        assert client.platform == "cpu"
        assert client.runtime_type == "native"
        assert client.program_formats == ("stablehlo",)
        assert client.platform_version.startswith("devrt-cpu 0.1.0 ")
        memories = client.local_devices()[2].addressable_memories()
        assert [m.kind for m in memories] == [k.kind for k in kinds]


def test_probe_of_an_incomplete_installation(monkeypatch, tmp_path_factory):
    monkeypatch.setattr(plugin, "__file__", str(tmp_path_factory.mktemp("empty") / "plugin.py"))
    monkeypatch.setattr(plugin, "_MODULE", "_not_there")
    answer = plugin._probe()
    assert not isinstance(answer, Available)
    assert "pip" in answer.remedy


def test_entry_point():
    try:
        distribution = metadata.distribution("devrt-cpu")
    except metadata.PackageNotFoundError:
        pytest.skip("devrt-cpu is not installed as a distribution")
    (entry,) = distribution.entry_points.select(group="devrt_plugins")
    assert (entry.name, entry.value) == ("cpu", "devrt_cpu.plugin")


def make(**fields):
    (factory,) = plugin.devrt_client_factories()
    return factory.factory(ClientContext(**fields))  # type: ignore[arg-type]


def test_the_factory_passes_on_what_the_context_says():
    source = np.ones(1 << 20, np.float32)
    with make(options={"num_cpu_devices": 3, "asynchronous": False}) as client:
        assert client.device_count() == 3
        buffer = client.buffer_from_pyval(source, host_buffer_semantics=1)
        assert buffer.is_ready()


def test_a_kind_that_nobody_can_allocate_is_left_out_with_a_warning():
    kinds = (*plugin.devrt_memory_kinds(), MemoryKind(platform="cpu", kind="nvm"))
    with pytest.warns(DevrtWarning, match="'nvm'"):
        client = make(memory_kinds=kinds)
    with client:
        names = [memory.kind for memory in client.devices()[0].addressable_memories()]
    assert names == ["device", "pinned_host", "unpinned_host", "huge_pages"]


def test_a_backend_registered_as_cpu_may_ask_for_the_real_one():
    script = """
import devrt
from devrt import runtime, xla_client
runtime.register_backend_factory("cpu", xla_client.make_cpu_client, fail_quietly=False)
print(devrt.device_count("cpu"), devrt.default_runtime().decide().chosen.ref.name)
print(xla_client.make_cpu_client(num_devices=3).device_count())
"""
    done = python(script, options=())
    assert (done.stdout, done.stderr) == ("8 cpu@(code)\n3\n", "")


XLA_FLAG = "--xla_force_host_platform_device_count"
COUNT = """
import devrt
setting = devrt.config.setting("num_cpu_devices")
print(devrt.device_count("cpu"), setting.origin, setting.detail)
"""


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"XLA_FLAGS": f"--xla_cpu_enable_fast_math=false {XLA_FLAG}=3"},
            "3 environment XLA_FLAGS",
        ),
        (
            {"XLA_FLAGS": f"{XLA_FLAG}=3", "DEVRT_NUM_CPU_DEVICES": "2"},
            "2 environment DEVRT_NUM_CPU_DEVICES",
        ),
    ],
)
def test_the_number_of_devices_that_xla_is_reported(environ, message):
    assert _run(COUNT, environ).stdout.strip() == message


@pytest.mark.parametrize("value", ["0", "many"])
def test_a_number_of_devices_that_xla_could_not_use(value):
    done = _run("import devrt; devrt.devices('cpu')", {"XLA_FLAGS": f"{XLA_FLAG}={value}"}, 1)
    last = done.stderr.strip().splitlines()[-1]
    assert "ConfigError: environment variable XLA_FLAGS" in last
    assert XLA_FLAG in last


def _run(code, environ, status=0):
    return python(code, status=status, clean=("DEVRT_", "JAX_"), **environ)
