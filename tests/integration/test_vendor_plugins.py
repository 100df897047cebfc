"""What the plugins of vendors' platforms have in common: their records, probes and refusals."""

import importlib
import importlib.metadata
import tomllib
from importlib.resources import files

import pytest

from devrt.errors import DevrtError, StatusCode
from devrt.records import ClientContext, ClientFactory, Unavailable
from support import python

every = pytest.mark.parametrize("name", ["cuda", "rocm", "tpu"])
of_gpus = pytest.mark.parametrize("name", ["cuda", "rocm"])


def plugin_of(name):
    return pytest.importorskip(f"devrt_{name}.plugin")


def factory_of(name):
    return importlib.import_module(f"devrt_{name}._platform").PLATFORM.make_client


@of_gpus
def test_one_platform_is_registered_as_jax_registers_it(name):
    plugin = plugin_of(name)
    (record,) = plugin.devrt_client_factories()
    assert record == ClientFactory(
        factory=factory_of(name),
        probe=plugin.probe,
        options=record.options,
        links=plugin.links,
        machine=plugin.machine,
        readings=record.readings,
        describe=record.describe,
        simulates=True,
    )
    assert {f"{name}_mock", f"{name}_visible_devices"} <= {spec.name for spec in record.options}
    row = tomllib.loads(files(f"devrt_{name}").joinpath("devrt.toml").read_text())["backend"][0]
    assert (row["aliases"], row["priority"], row["fail_quietly"]) == (["gpu"], 90, True)


@of_gpus
def test_the_factory_names_the_driver_s_library_that_is_missing(monkeypatch, name):
    (record,) = plugin_of(name).devrt_client_factories()
    monkeypatch.setattr("devrt.hardware.find_shared_library", lambda *names, **where: "/no/such.so")
    with pytest.raises(
        DevrtError, match=r"/no/such\.so: cannot open .*Install the driver"
    ) as caught:
        record.factory(ClientContext())
    assert caught.value.code is StatusCode.UNAVAILABLE


@of_gpus
def test_the_probe_of_this_machine_never_claims_the_platform(name):
    answer = plugin_of(name).probe()
    assert isinstance(answer, Unavailable)
    assert answer.reason
    assert answer.remedy.endswith(".") or "https://" in answer.remedy


@every
def test_importing_and_probing_load_no_native_library(name):
    plugin_of(name)
    loads = "plugin.devrt_pjrt_loader().check('nowhere.so')" if name == "tpu" else ""
    script = f"""
        import sys, devrt.hookspecs
        before = set(sys.modules)
        import devrt_{name}.plugin as plugin
        plugin.probe(), plugin.devrt_client_factories()
        {loads}
        new = {{name.partition('.')[0] for name in set(sys.modules) - before}}
        print(*sorted(new - sys.stdlib_module_names | new & {{'ctypes'}}))
    """
    done = python(script)
    loader = "devrt_pjrt " if name == "tpu" else ""
    assert (done.stdout, done.stderr) == (f"devrt {loader}devrt_{name}\n", "")


@every
def test_the_version_is_the_distributions(name):
    plugin_of(name)
    module = importlib.import_module(f"devrt_{name}")
    assert module.__version__ == importlib.metadata.version(f"devrt-{name}")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018
