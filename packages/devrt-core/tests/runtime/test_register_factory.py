"""Factories that ask devrt for a client of the platform that they serve."""

import pytest

import devrt
from devrt import xla_client
from devrt.errors import PluginBusyError
from devrt.runtime import default_runtime, register_backend_factory


def ask(platform="one"):
    return xla_client.make_gpu_client(platform_name=platform)


def test_a_registered_factory_gets_the_installed_backend(plugins, as_default):
    plugins.add("one", priority=-1)
    as_default(plugins.runtime())
    register_backend_factory("one", ask)
    client = devrt.get_backend("one")
    assert default_runtime().decide("one").chosen.ref.distribution == "(code)"
    assert client.platform == "one"
    assert ask() is not client, "called by anybody else, it is the installed backend's as well"


def test_a_plugin_may_wrap_another_one_of_its_platform(plugins, as_default):
    plugins.add("one", distribution="plain")
    make = "from devrt import xla_client; return xla_client.make_gpu_client(platform_name='one')"
    plugins.add("one", distribution="wrapping", priority=5, make=make)
    runtime = as_default(plugins.runtime(DEVRT_INIT_TIMEOUT="60"))
    assert devrt.get_backend("one").platform == "one"
    assert runtime.decide("one").chosen.ref.distribution == "wrapping"


def test_a_factory_that_asks_for_itself_is_reported_at_once(plugins, as_default):
    plugins.add("good")
    as_default(plugins.runtime())
    register_backend_factory("mine", lambda: ask("mine"))
    for _ in range(2):
        with pytest.raises(
            PluginBusyError, match=r"plugin mine \(registered by a call\) req"
        ) as caught:
            devrt.devices("mine")
        assert caught.value.platform == "mine"
    assert devrt.get_backend("good").platform == "good"
