"""Plugins that are forbidden do not run, whatever question is requests."""

import pytest

from devrt.errors import ConfigError, DevrtError

MARKER = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"


def install(plugins):
    path = plugins.path / f"{plugins.add('marker')}.py"
    path.write_text(MARKER + path.read_text())


@pytest.fixture
def forbidding(plugins):
    """A runtime that forbids platform ``marker``, and whether its module ran."""
    install(plugins)
    plugins.add("one")
    ran = plugins.path / "ran"
    with plugins.runtime(DEVRT_FORBID_PLATFORMS="marker") as runtime:
        yield runtime, ran


def update(runtime):
    with pytest.raises(ConfigError):
        runtime.config.update("bogus", 1)


def alias(runtime):
    with pytest.raises(DevrtError):
        runtime.get_backend("no_such_alias")


def option_names(runtime):
    runtime.load_options()


def topologies(runtime):
    assert runtime.plugins.topologies("marker") == ()


def kinds(runtime):
    assert runtime.plugins.memory_kinds("marker") == ()


def default(runtime):
    assert runtime.get_backend().platform == "one"


def named(runtime):
    with pytest.raises(DevrtError, match="DEVRT_FORBID_PLATFORMS forbids marker"):
        runtime.get_backend("marker")


def aliases(runtime):
    refs = runtime.plugins.refs()
    assert [runtime.plugins.aliases(ref) for ref in refs if ref.platform == "marker"] == [()]


@pytest.mark.parametrize(
    "question", [update, alias, option_names, topologies, kinds, default, named, aliases]
)
def test_nothing_of_it_runs(forbidding, question):
    runtime, ran = forbidding
    question(runtime)
    assert not ran.exists()


def test_a_call_that_makes_a_client_of_its_own_may_name_it(forbidding):
    runtime, _ = forbidding
    client = runtime.make_client("marker")
    assert client.platform == "marker"
    client.close()


def test_the_description_of_devices_of_a_forbidden_platform(plugins, run_python):
    install(plugins)
    code = (
        "import devrt, devrt.runtime\ntry: devrt.runtime.make_pjrt_topology('marker')\n"
        "except devrt.errors.DevrtError as error: print(error)"
    )
    result = run_python("-c", code, path=[plugins.path], DEVRT_FORBID_PLATFORMS="marker")
    assert "describes topologies of platform 'marker'" in result.stdout, result.stderr
    assert not (plugins.path / "ran").exists()


@pytest.mark.parametrize("name", ["marker", "marker@zap-wheel"])
@pytest.mark.parametrize("question", [update, option_names])
def test_a_module_made_for_jax_does_not_run_in_a_child_either(wheels, runs, name, question):
    wheels.register(entry="marker")
    with wheels.runtime(DEVRT_FORBID_PLATFORMS=name) as runtime:
        question(runtime)
        assert runtime.plugins.refs_for(("marker",))
    assert runs == []
