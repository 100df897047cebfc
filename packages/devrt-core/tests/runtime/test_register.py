"""The registry by calls: libraries, the environment, topologies."""

import pathlib
import sys

import pytest

import devrt
from devrt import runtime as registry
from devrt.errors import (
    BackendInitializationError,
    BackendUnavailableError,
    ConfigError,
    DevrtError,
    DiscoveryWarning,
    InvalidArgumentError,
    PluginError,
    UnimplementedError,
)
from devrt.plugins import environment_plugins
from devrt.runtime import Runtime


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libacme.so"
    path.write_bytes(b"")
    return str(path)


@pytest.fixture
def runtime(plugins, as_default):
    return as_default(plugins.runtime())


def calls():
    return sys.modules["loading_pkg.plugin"].calls


# -- libraries ------------------------------------------------------------------------------------


def test_a_registered_library_is_loaded_when_it_is_used(runtime, add_loader, library):
    module = add_loader()
    assert registry.register_plugin("Zap", library_path=library, options={"count": 3}) is None
    assert module not in sys.modules
    assert registry.is_known_platform("zap")
    client = devrt.get_backend("zap")
    assert (client.platform, client.device_count()) == ("zap", 3)
    assert calls() == [(library, "zap", {"count": 3}, ())]
    ref = runtime.decide("zap").chosen.ref
    assert (ref.name, ref.source, ref.library) == ("zap@(code)", "register_plugin", library)
    assert runtime.decide("zap").chosen.priority == 400
    assert runtime.decide("zap").chosen.state.detail == "version 7"


def test_options_given_as_a_callable_are_requested_when_a_client_is_made(
    runtime, add_loader, library
):
    add_loader()
    requests = []

    def options():
        requests.append(1)
        return {"count": len(requests) + 1}

    registry.register_plugin("zap", library_path=library, options=options)
    runtime.decide("zap")
    assert requests == []
    assert devrt.device_count("zap") == 2
    devrt.clear_backends()
    assert devrt.device_count("zap") == 3
    own = runtime.make_client("zap", {"count": 5})
    assert own.device_count() == 5
    own.close()


@pytest.mark.parametrize("options", [{"count": object()}, lambda: {"count": None}, lambda: 5])
def test_options_that_no_client_takes_are_named(runtime, add_loader, library, options):
    add_loader()
    registry.register_plugin("zap", library_path=library, options=options)
    with pytest.raises(BackendInitializationError, match="the options of platform 'zap'") as caught:
        devrt.get_backend("zap")
    assert isinstance(caught.value.__cause__, ConfigError)
    assert calls() == []


def test_a_capsule_in_place_of_a_path(runtime, add_loader):
    add_loader()
    capsule = object()
    assert registry.register_plugin("zap", priority=7, c_api=capsule) is capsule
    devrt.get_backend("zap")
    assert calls()[0][0] is capsule
    assert runtime.decide("zap").chosen.priority == 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either a library_path or a c_api; none of them was given"),
        ({"library_path": ""}, "none of them"),
        ({"library_path": "/x.so", "c_api": object()}, "both of them"),
    ],
)
def test_just_one_of_path_and_capsule(runtime, arguments, words):
    with pytest.raises(InvalidArgumentError, match=words):
        registry.register_plugin("zap", **arguments)
    assert not registry.is_known_platform("zap")


@pytest.mark.parametrize("name", ["", " ", "a,b", "a@b", "a b", None, 5])
def test_a_name_that_is_none(runtime, library, name):
    with pytest.raises(InvalidArgumentError, match="a platform cannot be called"):
        registry.register_plugin(name, library_path=library)
    with pytest.raises(InvalidArgumentError, match="a platform cannot be called"):
        registry.register_backend_factory(name, print)


def test_a_priority_that_is_none(runtime, library):
    with pytest.raises(InvalidArgumentError, match=r"platform 'zap' is an integer, not 1\.5"):
        registry.register_plugin("zap", 1.5, library)
    with pytest.raises(InvalidArgumentError, match="an integer, not None"):
        registry.register_backend_factory("zap", print, priority=None)
    assert not registry.is_known_platform("zap")


def test_a_path_is_checked_when_it_is_used(runtime, add_loader, tmp_path):
    add_loader()
    path = tmp_path / "late.so"
    registry.register_plugin("zap", library_path=pathlib.Path(path))
    with pytest.raises(BackendUnavailableError, match=r"late\.so' is not there"):
        devrt.get_backend("zap")
    path.write_bytes(b"")
    devrt.clear_backends()
    assert devrt.default_backend() == "zap"


def test_the_loader_may_refuse_a_library(runtime, add_loader, tmp_path):
    add_loader()
    path = tmp_path / "bad.so"
    path.write_bytes(b"")
    registry.register_plugin("zap", library_path=str(path))
    with pytest.raises(BackendUnavailableError, match=r"the library is too old\. Upgrade it\."):
        devrt.get_backend("zap")


def test_without_a_loader_a_library_is_unavailable(runtime, plugins, library):
    module = plugins.add("other", "raise AssertionError")
    registry.register_plugin("zap", library_path=library)
    with pytest.raises(
        BackendUnavailableError, match="no installed plugin can load PJRT"
    ) as caught:
        devrt.get_backend("zap")
    assert "Install the PJRT loader (devrt-tpu)" in str(caught.value)
    assert module not in sys.modules


def test_registering_a_library_after_initialisation(runtime, add_loader, library):
    add_loader()
    registry.register_plugin("zap", library_path=library)
    devrt.get_backend("zap")
    with pytest.raises(
        InvalidArgumentError, match=r"in use, initialised by /.* \(registered by a call\)"
    ):
        registry.register_plugin("zap", library_path=library)
    with pytest.raises(InvalidArgumentError, match="'zap' cannot be registered"):
        registry.register_backend_factory("ZAP", print)
    devrt.clear_backends()
    registry.register_plugin("zap", library_path=library, options={"count": 4})
    assert devrt.device_count("zap") == 4


def test_a_name_that_an_installed_plugin_has_is_kept_beside_it(
    runtime, plugins, add_loader, library
):
    plugins.add("one", priority=500)
    add_loader()
    registry.register_plugin("one", library_path=library)
    names = [v.candidate.ref.name for v in runtime.decide("one").verdicts]
    assert names == ["one@fake-one", "one@(code)"]
    assert "PJRT" in devrt.get_backend("one@(code)").platform_version


# -- the environment and discovery ----------------------------------------------------------------


def test_discovery_now(plugins, as_default):
    requests = []
    runtime = as_default(Runtime(discover=lambda: requests.append(1) or plugins.refs()))
    module = plugins.add("one")
    registry.discover_pjrt_plugins()
    registry.discover_pjrt_plugins()
    assert (requests, module in sys.modules) == ([1], False)
    assert [ref.platform for ref in runtime.plugins.refs()] == ["one"]


def test_the_environment_can_be_read_again(runtime, add_loader, library, monkeypatch):
    add_loader()
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", f"zap:{library},pow")
    for _ in range(2):
        registry.register_pjrt_plugin_factories_from_env()
        assert [r.platform for r in runtime.plugins.refs()] == ["loading", "pow", "zap"]
    with pytest.warns(DiscoveryWarning, match="entry 2 of PJRT_NAMES_AND_LIBRARY_PATHS, 'pow'"):
        assert devrt.get_backend("zap").platform == "zap"
    registry.register_pjrt_plugin_factories_from_env()
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", f"zap:{library}x")
    with pytest.raises(InvalidArgumentError, match=r"'zap' cannot be registered.*\(env"):
        registry.register_pjrt_plugin_factories_from_env()
    assert set(environment_plugins()) - set(runtime.plugins.refs())


# -- questions ------------------------------------------------------------------------------------


def test_which_backends_use_the_pjrt_c_api(runtime, plugins, add_loader, library):
    plugins.add("one", priority=500)
    add_loader()
    registry.register_plugin("zap", library_path=library)
    assert registry.using_pjrt_c_api("zap")
    assert not registry.using_pjrt_c_api()
    assert registry.backend_pjrt_c_api_version("zap") == (0, 7)
    assert registry.backend_pjrt_c_api_version() is None
    assert registry.using_pjrt_c_api(devrt.get_backend("zap"))


def test_a_gpu_is_what_its_plugin_calls_one(runtime, plugins):
    plugins.add("one", aliases=("gpu",))
    module = plugins.add("two")
    assert registry.is_gpu("one")
    assert registry.is_gpu("ONE")
    assert module not in sys.modules
    assert [registry.is_gpu(name) for name in ("two", "gpu", "none", "")] == [False] * 4


TOPOLOGIES = """
    from devrt.hookspecs import hookimpl
    from devrt.records import TopologyFactory
    def make(topology_name, **options):
        if topology_name == "broken":
            raise OSError("no such chip")
        if topology_name == "refused":
            from devrt.errors import InvalidArgumentError
            raise InvalidArgumentError("not this one")
        return topology_name, options
    @hookimpl
    def devrt_topology_factories():
        return [TopologyFactory(platform="one", factory=make)]
"""


def test_a_topology_of_another_plugin(runtime, plugins):
    plugins.add("one", aliases=("first",), probe="raise AssertionError")
    plugins.add("one", TOPOLOGIES, distribution="describer")
    assert registry.make_pjrt_topology("one", "2x2", chips=4) == ("2x2", {"chips": 4})
    assert registry.make_pjrt_topology("First") == ("", {})
    assert registry.make_pjrt_topology("one@describer", "x") == ("x", {})
    assert not registry.backends_are_initialized()
    with pytest.raises(PluginError, match=r"describer 1\.0 .*'broken'.*OSError: no such") as caught:
        registry.make_pjrt_topology("one", "broken")
    assert (caught.value.phase, caught.value.plugin) == ("topology", "describer")
    with pytest.raises(InvalidArgumentError, match="not this one"):
        registry.make_pjrt_topology("one", "refused")


@pytest.mark.parametrize("name", ["two", "none", "two@fake-two"])
def test_a_topology_that_nobody_describes(runtime, plugins, name):
    plugins.add("one", TOPOLOGIES)
    plugins.add("two")
    with pytest.raises(UnimplementedError, match=rf"platform '{name}'") as caught:
        registry.make_pjrt_topology(name)
    assert isinstance(caught.value, NotImplementedError)
    assert "Platforms with topologies: one (fake-one 1.0)." in str(caught.value)


def test_a_topology_of_a_library(runtime, add_loader, library):
    add_loader()
    registry.register_plugin("zap", library_path=library)
    assert registry.make_pjrt_topology("zap", "2x2", a=1) == (library, "zap", "2x2", {"a": 1})


@pytest.mark.parametrize(
    ("loader", "words"),
    [(None, "no installed plugin can load"), ("PjrtLoader(make_client=make_client)", "makes none")],
)
def test_a_topology_of_a_library_that_nobody_describes(runtime, add_loader, library, loader, words):
    if loader:
        add_loader(loader)
    registry.register_plugin("zap", library_path=library)
    with pytest.raises(UnimplementedError, match=words):
        registry.make_pjrt_topology("zap")


def test_a_topology_of_a_library_whose_platform_has_a_wheel_names_it(runtime, add_loader, library):
    add_loader("PjrtLoader(make_client=make_client)")
    registry.register_plugin("cuda", library_path=library)
    with pytest.raises(UnimplementedError, match=r"makes none.*pip install .*/devrt-cuda\[compile"):
        registry.make_pjrt_topology("cuda", "h100:1x1x8")


@pytest.mark.parametrize("distribution", ["xla-cpu-pjrt", "xla_cpu_pjrt"])
def test_a_wheel_that_is_there_is_not_to_be_installed(
    runtime, plugins, add_loader, library, distribution
):
    add_loader("PjrtLoader(make_client=make_client)")
    plugins.add("other", distribution=distribution)
    registry.register_plugin("xla_cpu_pjrt", library_path=library)
    with pytest.raises(UnimplementedError, match="makes none") as caught:
        registry.make_pjrt_topology("xla_cpu_pjrt")
    assert "pip install" not in str(caught.value)


def test_without_a_loader_only_that_is_to_be_installed(runtime, library):
    registry.register_plugin("cuda", library_path=library)
    with pytest.raises(UnimplementedError, match="Install the PJRT loader") as caught:
        registry.make_pjrt_topology("cuda")
    assert "devrt-cuda" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "command"),
    [("tpu", '"./packages/devrt-tpu.libtpu.'), ("gpu", "devrt-cuda")],
)
def test_what_describes_a_platform_is_named_where_it_is_known(runtime, name, command):
    with pytest.raises(UnimplementedError, match=f"Install one that does: .*{command}") as caught:
        registry.make_pjrt_topology(name)
    assert "rocm" not in str(caught.value)  # which has no client yet


def test_a_topology_needs_a_name(runtime):
    with pytest.raises(DevrtError, match="name is empty"):
        registry.make_pjrt_topology(" ")


@pytest.fixture
def no_library(monkeypatch):
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    return monkeypatch


def test_the_topology_function_of_one_platform_without_a_plugin(plugins, as_default, no_library):
    as_default(plugins.runtime())
    with pytest.raises(
        UnimplementedError, match=r"'v5e:2x2' .*: pip install \"./packages/devrt-tpu\[libtpu\]\""
    ) as caught:
        registry.make_pjrt_tpu_topology("v5e:2x2")
    assert caught.value.platform == "tpu"
    assert str(caught.value).count("devrt-tpu") == 1


def test_it_asks_the_plugin_that_describes_the_platform(plugins, as_default, no_library):
    as_default(plugins.runtime())
    registry.register_backend_factory(
        "tpu", object, make_topology=lambda name, **given: (name, given)
    )
    assert registry.make_pjrt_tpu_topology("v5e:2x2", chips=4) == ("v5e:2x2", {"chips": 4})


def test_it_takes_the_library_that_the_environment_names(
    plugins, as_default, no_library, add_loader, tmp_path
):
    as_default(plugins.runtime())
    library = tmp_path / "libtpu.so"
    no_library.setenv("TPU_LIBRARY_PATH", str(library))
    with pytest.raises(UnimplementedError, match=r"is not there.*pip install .*/devrt-tpu\[libtpu"):
        registry.make_pjrt_tpu_topology()
    library.touch()
    with pytest.raises(UnimplementedError, match="no installed plugin can load PJRT libraries"):
        registry.make_pjrt_tpu_topology()
    add_loader()
    as_default(plugins.runtime())
    made = registry.make_pjrt_tpu_topology("v5e:2x2", a=1)
    assert made == (str(library), "tpu", "v5e:2x2", {"a": 1})
