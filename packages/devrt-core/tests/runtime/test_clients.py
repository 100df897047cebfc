"""Clients of a runtime: made once, handed their options and memory kinds, and closed."""

import concurrent.futures
import sys
import threading

import pytest

import devrt
from devrt import errors
from devrt import runtime as runtime_module
from devrt.contract import Client
from devrt.errors import (
    ConfigError,
    DevrtWarning,
    DiscoveryWarning,
    InvalidArgumentError,
    InvalidTypeError,
    UnknownPlatformError,
)
from devrt.runtime import (
    default_runtime,
    register_backend_factory,
    set_default_runtime,
)

PARTS = {
    "make": "return AcmeClient(context.options['num_parts'])",
    "options": "(OptionSpec(name='num_parts', type=int, default=2, minimum=1),)",
}

KINDS = """
    from devrt.hookspecs import hookimpl
    from devrt.records import MemoryKind
    @hookimpl
    def devrt_memory_kinds():
        return [MemoryKind(platform="one", kind="slow"), MemoryKind(platform="two", kind="other")]
"""


@pytest.fixture
def acme():
    """Return a maker of real simulated clients, closed when the test ends."""
    from devrt_acme.client import AcmeClient

    made = []

    def make(count=2, platform="mine"):
        made.append(type("Client", (AcmeClient,), {"platform": platform})(count))
        return made[-1]

    yield make
    for client in made:
        client.close()


def test_many_threads_make_one_client(plugins):
    module = plugins.add("one", make="import time; time.sleep(0.05); return AcmeClient(2)")
    with plugins.runtime() as runtime, concurrent.futures.ThreadPoolExecutor(32) as pool:
        barrier = threading.Barrier(32)

        def ask(number):
            barrier.wait(60)
            return runtime.get_backend("one" if number % 2 else None)

        clients = list(pool.map(ask, range(32)))
        assert len(set(map(id, clients))) == 1
        assert len(sys.modules[module].contexts) == 1


def test_many_threads_get_one_failure_each(plugins):
    module = plugins.add("one", make="import time; time.sleep(0.05); raise OSError('gone')")
    runtime = plugins.runtime()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        barrier = threading.Barrier(16)

        def ask(_):
            barrier.wait(60)
            with pytest.raises(errors.BackendInitializationError) as caught:
                runtime.get_backend("one")
            return caught.value

        found = list(pool.map(ask, range(16)))
    assert len(set(map(id, found))) == 16
    assert {str(error) for error in found} == {str(found[0])}
    assert len(sys.modules[module].contexts) == 1


def test_clear_backends_closes_and_allows_another_beginning(plugins):
    plugins.add("one", **PARTS)
    with plugins.runtime() as runtime:
        first = runtime.get_backend()
        with pytest.raises(ConfigError, match=r"the one client of fake-one 1\.0 was made with 2"):
            runtime.config.update("num_parts", 3)
        runtime.clear_backends()
        assert first.is_closed
        assert runtime.live_clients() == {}
        runtime.config.update("num_parts", 3)
        second = runtime.get_backend()
        assert (second.is_closed, second.device_count()) == (False, 3)
        assert second is not first


def test_clear_backends_forgets_failures_probes_and_what_is_installed(plugins):
    plugins.add(
        "one",
        make="tries.append(1)\n    if len(tries) < 2: raise OSError\n    return AcmeClient(1)",
        extra="tries = []",
    )
    plugins.add(
        "two",
        extra="answers = [Available(), Unavailable('no', 'card')]",
        probe="return answers.pop()",
    )
    with plugins.runtime() as runtime:
        for name in ("one", "two", "three"):
            with pytest.raises(errors.DevrtError):
                runtime.get_backend(name)
        plugins.add("three")
        runtime.clear_backends()
        assert [runtime.get_backend(n).device_count() for n in ("one", "two", "three")] == [1, 2, 2]


def test_close_is_idempotent_and_the_end_of_a_with_block(plugins):
    plugins.add("one")
    with plugins.runtime() as runtime:
        client = runtime.get_backend()
    assert client.is_closed
    runtime.close()
    runtime.close()
    assert runtime.live_clients() == {}


def test_one_that_cannot_be_closed_keeps_no_other_open(plugins):
    bad = "raise OSError('stuck')"
    close = f"return type('Bad', (AcmeClient,), {{'close': lambda self: exec({bad!r})}})(1)"
    plugins.add("a", make=close)
    plugins.add("b")
    runtime = plugins.runtime()
    runtime.get_backend("a")
    client = runtime.get_backend("b")
    with pytest.warns(DevrtWarning, match=r"closing the a client of fake-a 1\.0 .*stuck") as caught:
        runtime.close()
    assert [warning.filename for warning in caught] == [__file__]
    assert client.is_closed


def test_a_client_without_devices_is_closed_again(plugins):
    make = "client = AcmeClient(0); clients.append(client); return client"
    module = plugins.add("one", make=make, extra="clients = []")
    with pytest.raises(errors.BackendInitializationError):
        plugins.runtime().get_backend("one")
    assert sys.modules[module].clients[0].is_closed


def test_the_factory_gets_its_options_and_nothing_else(plugins):
    module = plugins.add("one", **PARTS)
    with plugins.runtime(DEVRT_NUM_PARTS="4") as runtime:
        assert runtime.get_backend().device_count() == 4
        (context,) = sys.modules[module].contexts
        assert dict(context.options) == {"num_parts": 4}
        with pytest.raises(TypeError):
            context.options["num_parts"] = 5
        assert context.memory_kinds == ()


def test_a_client_of_the_callers_own(plugins):
    plugins.add("one", **PARTS)
    with plugins.runtime() as runtime:
        shared = runtime.get_backend()
        own = runtime.make_client("one", {"num_parts": 5})
        assert (own.device_count(), shared.device_count()) == (5, 2)
        own.close()
        assert not shared.is_closed
        assert runtime.live_clients() == {"one": shared}
        with pytest.raises(UnknownPlatformError):
            runtime.make_client("none")


@pytest.mark.parametrize("name", ["one", "one@fake-one", None])
def test_memory_kinds_of_another_plugin_reach_the_factory(plugins, name):
    module = plugins.add("one")
    plugins.add("one", KINDS, distribution="a-slow-memory")
    with plugins.runtime() as runtime:
        runtime.get_backend(name)
        (context,) = sys.modules[module].contexts
        assert [kind.kind for kind in context.memory_kinds] == ["slow"]


def test_a_broken_memory_plugin_costs_its_kinds_only(plugins):
    module = plugins.add("one")
    plugins.add("one", "raise OSError", distribution="a-slow-memory")
    with plugins.runtime() as runtime:
        with pytest.warns(DiscoveryWarning, match="'a_slow_memory_plugin' raised OSError"):
            assert runtime.get_backend("one").platform == "one"
        assert sys.modules[module].contexts[0].memory_kinds == ()
        states = {v.candidate.ref.distribution: v.outcome.value for v in runtime.decide().verdicts}
        assert states == {"fake-one": "chosen", "a-slow-memory": "broken"}


def test_an_experimental_platform_warns_once_at_the_callers_line(plugins, as_default):
    plugins.add("one", experimental=True)
    as_default(plugins.runtime())
    with pytest.warns(DevrtWarning, match=r"'one' \(fake-one 1\.0\) is experimental") as caught:
        devrt.devices()
    (warning,) = caught
    assert warning.filename == __file__
    devrt.devices("one")
    devrt.clear_backends()
    devrt.devices()


def test_the_default_device(plugins):
    plugins.add("one", priority=1)
    plugins.add("two")
    with plugins.runtime() as runtime:
        one, two = runtime.get_backend("one"), runtime.get_backend("two")
        assert runtime.default_device() is one.devices()[0]
        with runtime.config.override(default_device=two.devices()[1]):
            assert runtime.default_device() is two.devices()[1]
        with runtime.config.override(default_device="two"):
            assert runtime.default_device() is two.devices()[0]
        with runtime.config.override(default_device="two:1"):
            assert runtime.default_device() is two.devices()[1]
        with (
            runtime.config.override(default_device="two:9"),
            pytest.raises(ConfigError, match=r"names 'two:9', and two has "),
        ):
            runtime.default_device()
        with (
            pytest.raises(ConfigError, match=r"a platform's name or .*, not 5 of type int"),
            runtime.config.override(default_device=5),
        ):
            pass


def test_an_override_of_the_platforms_holds_inside_only(plugins):
    plugins.add("one", priority=1)
    plugins.add("two")
    with plugins.runtime() as runtime:
        assert runtime.get_backend().platform == "one"
        with runtime.config.override(platforms="two"):
            assert runtime.get_backend().platform == "two"
        assert runtime.get_backend().platform == "one"
        runtime.config.update("platforms", "two")
        assert runtime.get_backend().platform == "two"


# -- the default runtime and the registry by calls ------------------------------------------------


def test_the_default_runtime_can_be_replaced(plugins):
    plugins.add("one")
    mine = plugins.runtime()
    former = set_default_runtime(mine)
    try:
        assert default_runtime() is mine
        assert devrt.config is mine.config
        assert devrt.default_backend() == "one"
        assert set_default_runtime(None) is mine
        assert default_runtime() is not mine
    finally:
        set_default_runtime(former)
    mine.close()


def test_a_backend_registered_by_a_call(plugins, as_default, acme):
    plugins.add("one", priority=1)
    as_default(plugins.runtime())
    register_backend_factory("Mine", acme, priority=5)
    assert runtime_module.is_known_platform("mine")
    client = devrt.get_backend("mine")
    assert isinstance(client, Client)
    assert devrt.get_backend() is client
    ref = default_runtime().decide().chosen.ref
    assert (ref.distribution, ref.source) == ("(code)", "register_backend_factory")


def test_registering_after_initialisation(plugins, as_default, acme):
    plugins.add("one", priority=1)
    as_default(plugins.runtime())
    one = devrt.get_backend()
    with pytest.raises(InvalidArgumentError, match=r"'one' cannot be registered.*in use") as caught:
        register_backend_factory("one", acme)
    assert caught.value.platform == "one"
    register_backend_factory("late", lambda: acme(platform="late"), priority=9)
    assert devrt.get_backend("late") is not one
    assert devrt.get_backend() is one, "the default must not change under its users"
    devrt.clear_backends()
    register_backend_factory("one", lambda: acme(7, "one"), priority=10)
    assert devrt.device_count("one") == 7


def test_registering_again_after_a_failure(plugins, as_default, acme):
    as_default(plugins.runtime())
    register_backend_factory("mine", lambda: None)
    with pytest.raises(errors.BackendInitializationError, match="returned None"):
        devrt.devices("mine")
    register_backend_factory("mine", acme)
    assert len(devrt.devices("mine")) == 2


def test_registered_backends_fail_quietly_by_default(plugins, as_default):
    plugins.add("one")
    as_default(plugins.runtime())
    register_backend_factory("quiet", lambda: None, priority=8)
    assert devrt.default_backend() == "one"
    devrt.clear_backends()
    register_backend_factory("loud", lambda: None, priority=9, fail_quietly=False)
    with pytest.warns(DevrtWarning, match="'loud' could not be initialised"):
        assert devrt.default_backend() == "one"


def test_registered_topologies_are_kept(plugins, as_default, acme):
    as_default(plugins.runtime())
    register_backend_factory("mine", acme, make_topology=lambda name, **options: (name, options))
    runtime = default_runtime()
    (topology,) = runtime.plugins.load(runtime.plugins.refs()[0]).topologies
    assert topology.factory("2x2", chips=4) == ("2x2", {"chips": 4})


# -- questions ------------------------------------------------------------------------------------


@pytest.fixture
def platform(plugins, as_default):
    plugins.add("one", aliases=("first",))
    return as_default(plugins.runtime())


def test_questions_about_the_default_platform(platform):
    client = platform.get_backend()
    for backend in (None, "one", "first", client):
        assert devrt.devices(backend) == client.devices()
        assert devrt.local_devices(backend=backend) == client.local_devices()
        assert devrt.device_count(backend) == devrt.local_device_count(backend) == 2
        assert devrt.process_index(backend) == 0
        assert devrt.process_count(backend) == 1
        assert devrt.process_indices(backend) == [0]
        assert devrt.get_backend(backend) is client
    assert devrt.default_backend() == "one"
    assert devrt.backends() == {"one": client}
    assert devrt.get_device_backend() is client
    assert devrt.get_device_backend(client.devices()[1]) is client


def test_before_the_first_use_nothing_is_initialised(platform):
    assert not runtime_module.backends_are_initialized()
    devrt.devices()
    assert runtime_module.backends_are_initialized()
    devrt.clear_backends()
    assert not runtime_module.backends_are_initialized()


def test_names_of_platforms(platform):
    assert runtime_module.is_known_platform("one")
    assert runtime_module.is_known_platform("FIRST")
    assert not runtime_module.is_known_platform("two")
    assert not runtime_module.is_known_platform("")
    assert runtime_module.expand_platform_alias("first") == ["one"]
    assert runtime_module.expand_platform_alias("two") == ["two"]
    assert runtime_module.canonicalize_platform("first") == "one"
    assert runtime_module.canonicalize_platform("one") == "one"
    assert runtime_module.canonicalize_platform("other") == "other"


def test_local_devices_of_a_process(platform):
    assert devrt.local_devices(0) == devrt.local_devices(process_index=0) == devrt.devices()
    for index in (1, -1, 10**9):
        with pytest.raises(InvalidArgumentError, match=f"no process {index}; it has 1") as caught:
            devrt.local_devices(index)
        assert caught.value.process_count == 1
    for wrong in ("0", 0.5, [0]):
        with pytest.raises(InvalidTypeError, match="named by its index"):
            devrt.local_devices(wrong)


@pytest.mark.parametrize("name", ["host_id", "host_count", "host_ids"])
def test_older_names_warn_at_the_callers_line(platform, name):
    newer = {"host_id": 0, "host_count": 1, "host_ids": [0]}
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated; use process_") as caught:
        assert getattr(devrt, name)() == newer[name]
    assert [warning.filename for warning in caught] == [__file__]


def test_the_older_argument_warns_too(platform):
    with pytest.warns(DeprecationWarning, match="host_id of local_devices.*process_index"):
        assert len(devrt.local_devices(host_id=0)) == 2


@pytest.mark.parametrize("ask", ["devices", "device_count", "process_index", "get_backend"])
def test_every_question_refuses_what_is_no_backend(platform, ask):
    with pytest.raises(InvalidTypeError, match="not as 5"):
        getattr(devrt, ask)(5)
