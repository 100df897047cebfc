"""What the plugins of vendors' platforms have in common: their records, probes and refusals."""

import importlib
import importlib.metadata
import tomllib
from importlib.resources import files

import pytest

from devrt.errors import StatusCode, UnimplementedError
from devrt.records import ClientContext, ClientFactory, Unavailable
from support import python

every = pytest.mark.parametrize("name", ["cuda", "rocm", "tpu"])
without_client = pytest.mark.parametrize(
    ("name", "remedy"), [("cuda", "pip install"), ("rocm", "DEVRT_PLATFORMS=cpu")]
)


def plugin_of(name):
    return pytest.importorskip(f"devrt_{name}.plugin")


@without_client
def test_one_platform_is_registered_as_jax_registers_it(name, remedy):
    plugin = plugin_of(name)
    (record,) = plugin.devrt_client_factories()
    assert record == ClientFactory(factory=plugin.make_client, probe=plugin.probe)
    row = tomllib.loads(files(f"devrt_{name}").joinpath("devrt.toml").read_text())["backend"][0]
    assert (row["aliases"], row["priority"], row["fail_quietly"]) == (["gpu"], 200, True)


@without_client
def test_the_factory_refuses_in_the_words_of_the_probe(monkeypatch, name, remedy):
    plugin = plugin_of(name)
    if name == "cuda":  # as where no plugin of XLA's is installed
        monkeypatch.setattr(importlib.import_module("devrt_cuda._machine"), "_PLUGINS", ())
    version = importlib.metadata.version(f"devrt-{name}")
    words = f"devrt-{name} {version} has no client {'of its own ' * (name == 'cuda')}yet"
    with pytest.raises(UnimplementedError, match=words) as caught:
        plugin.make_client(ClientContext())
    assert caught.value.code is StatusCode.UNIMPLEMENTED
    assert (caught.value.platform, caught.value.plugin) == (name, f"devrt-{name}")
    assert remedy in str(caught.value)


@without_client
def test_the_probe_of_this_machine_never_claims_the_platform(name, remedy):
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
