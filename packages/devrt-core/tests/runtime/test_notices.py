"""Where a user needs a word: one warning for each fault, at the first use and never half-way."""

import json
import os
import sys

import pytest

import devrt
from devrt._config.layers import Config
from devrt.errors import DevrtWarning, DiscoveryWarning, UnknownPlatformError
from devrt.plugins import ENVIRONMENT_VARIABLE, discover_plugins
from devrt.runtime import Runtime
from support import write


def test_the_class_is_a_devrt_warning():
    assert issubclass(DiscoveryWarning, DevrtWarning)
    assert issubclass(DiscoveryWarning, UserWarning)


def test_where_nothing_is_wrong_nothing_is_reported(plugins, reported, machine):
    plugins.add("cpu")
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')", priority=9)
    write(machine, "dev/null")
    with plugins.runtime(SOMETHING="1") as runtime:
        assert reported(runtime) == []


def test_a_warning_points_at_the_callers_line(plugins, as_default):
    plugins.add("cpu")
    as_default(plugins.runtime(DEVRT_PLATFROMS="cpu"))
    with pytest.warns(DiscoveryWarning) as caught:
        devrt.devices()
    assert caught[0].filename == __file__


# -- variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["cpu", None])
@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("DEVRT_PLATFROMS", "DEVRT_PLATFORMS"),
        ("DEVRT_INIT_TIMOUT", "DEVRT_INIT_TIMEOUT"),
        ("DEVRT_CACHE_DIRS", "DEVRT_CACHE_DIR"),
        ("DEVRT_CONFG_FILE", "DEVRT_CONFIG_FILE"),
        ("DEVRT_NUM_CPU_PART", "DEVRT_NUM_CPU_PARTS"),
        ("DEVRT_NUM_PARTS", "DEVRT_NUM_CPU_PARTS"),
        ("DEVRT_CPU_PARTS", "DEVRT_NUM_CPU_PARTS"),
        ("DEVRT_PARTS", "DEVRT_NUM_CPU_PARTS"),
    ],
)
def test_a_misspelt_variable(plugins, reported, variable, meant, platform):
    plugins.add("cpu", options="(OptionSpec(name='num_cpu_parts', type=int, default=2),)")
    with plugins.runtime(**{variable: "1"}) as runtime:
        (message,) = reported(runtime, platform)
    assert message == (
        f"environment variable {variable} is not read by devrt. Did you mean {meant}?"
    )


def test_what_may_be_another_plugins_variable_is_let_pass(plugins, reported):
    plugins.add("cpu", options="(OptionSpec(name='num_cpu_parts', type=int, default=2),)")
    plugins.add("acme", options="(OptionSpec(name='num_acme_parts', type=int, default=2),)")
    with plugins.runtime(DEVRT_NUM_ACME_PARTS="1") as runtime:
        assert reported(runtime, "cpu") == []
    with plugins.runtime(DEVRT_NUM_ACME_PART="1") as runtime:
        assert runtime.get_backend("cpu").platform == "cpu"
        with pytest.warns(DiscoveryWarning, match="Did you mean DEVRT_NUM_ACME_PARTS"):
            runtime.get_backend("acme")


def test_no_variable_may_be_an_adopted_plugins(plugins, wheels, reported):
    plugins.add("cpu")
    wheels.register("'zip', library_path=library", entry="zip")
    with wheels.runtime(DEVRT_ZIP_PARTS="1") as runtime:
        (message,) = reported(runtime, "cpu")
    assert message.startswith("environment variable DEVRT_ZIP_PARTS is not read by devrt. ")


def test_a_variable_that_a_manifest_names(plugins, reported):
    variable = '[[backend.environment]]\nname = "DEVRT_ACME_PATH"\nabout = "where it is"\n'
    plugins.package("acme", f"schema = 1\n[[backend]]\n{variable}")
    with plugins.runtime(DEVRT_ACME_PATH="/") as runtime:
        assert reported(runtime, "acme") == []


def test_a_variable_that_is_like_no_option(plugins, reported):
    plugins.add("cpu")
    with plugins.runtime(DEVRT_WHATEVER="1") as runtime:
        (message,) = reported(runtime, "cpu")
    assert message == (
        "environment variable DEVRT_WHATEVER is not read by devrt. "
        "`devrt config` lists the options."
    )


def test_a_misspelt_variable_is_reported_before_the_error_that_it_leads_to(plugins):
    plugins.add("one")
    runtime = plugins.runtime(DEVRT_PLATFROMS="one")
    with (
        pytest.warns(DiscoveryWarning, match="DEVRT_PLATFROMS"),
        pytest.raises(UnknownPlatformError),
    ):
        runtime.get_backend("two")


# -- PJRT_NAMES_AND_LIBRARY_PATHS -----------------------------------------------------------------


@pytest.fixture
def naming(plugins, tmp_path, monkeypatch):
    """Return a function that makes a runtime whose environment names a library."""
    plugins.add("cpu", priority=1000)

    def make(value):
        monkeypatch.setenv(ENVIRONMENT_VARIABLE, value)
        return Runtime(config=Config({}), discover=lambda: discover_plugins([str(plugins.path)]))

    return make


ENTRIES = {
    "malformed": ("zap", "entry 1 of PJRT_NAMES_AND_LIBRARY_PATHS, 'zap', has no ':' and no path"),
    "without a name": (":{folder}/lib.so", "has no platform's name before the first ':'"),
    "an absent file": ("zap:{folder}/absent.so", "absent.so' is not there|there is no such file"),
    "a directory": ("zap:{folder}", "' is a directory|it is no file"),
    "another mark": ("zap=/lib.so", "'zap=/lib.so', has '=' where ':' belongs"),
    "no library": ("zap:{folder}/text.so", "no shared library|too old"),
    "a file without library_path": ("zap:{folder}/empty.json", "library_path must be the path"),
    "no JSON": ("zap:{folder}/text.json", "it is no JSON"),
    "an absent JSON file": ("zap:{folder}/absent.json", "it cannot be read"),
    "JSON that names an absent file": ("zap:{folder}/names.json", "is not there|no such file"),
}


@pytest.fixture
def files(tmp_path):
    for name in ("text.so", "text.json"):
        write(tmp_path, name, "text")
    write(tmp_path, "empty.json", "{}")
    write(tmp_path, "names.json", json.dumps({"library_path": str(tmp_path / "absent.so")}))
    return tmp_path


@pytest.mark.parametrize("platform", ["cpu", None])
@pytest.mark.parametrize("what", ENTRIES)
def test_an_entry_that_cannot_be_used(naming, reported, add_loader, files, what, platform):
    refuse = "lambda path: Unavailable('too old', 'Renew it.')"
    add_loader(f"PjrtLoader(make_client=make_client, check={refuse})")
    value, words = ENTRIES[what]
    with naming(value.format(folder=files)) as runtime:
        (message,) = reported(runtime, platform)
    assert any(word in message for word in words.split("|")), message
    assert ENVIRONMENT_VARIABLE in message
    assert message.endswith(
        (
            "Correct the entry, or take it out.",
            "Renew it.",
            "Give the full path of the library, or install what brings it again.",
        )
    )
    if value.endswith((".so", ".json")) and what != "without a name":
        assert value.partition(":")[2].format(folder=files) in message


@pytest.mark.parametrize("platform", ["cpu@fake-cpu", None])
@pytest.mark.parametrize("name", ["pipe.so", "pipe.json"])
def test_a_pipe_is_not_waited_for(plugins, run_python, tmp_path, name, platform):
    plugins.add("cpu")
    os.mkfifo(tmp_path / name)
    environ = {ENVIRONMENT_VARIABLE: f"zap:{tmp_path / name}"}
    code = (
        f"import signal, devrt; signal.alarm(30); print(devrt.get_backend({platform!r}).platform)"
    )
    result = run_python("-c", code, path=[plugins.path], **environ)
    assert result.stdout == "cpu\n", result.stderr
    assert "is no file" in result.stderr or "is not there" in result.stderr


def test_a_good_library_is_no_fault(naming, reported, add_loader, tmp_path):
    add_loader()
    (tmp_path / "good.so").write_bytes(b"\x7fELF...")
    for platform in ("cpu", None):
        with naming(f"zap:{tmp_path / 'good.so'}") as runtime:
            assert reported(runtime, platform) == []


def test_a_library_without_a_loader_is_reported(naming, reported, tmp_path):
    (tmp_path / "good.so").write_bytes(b"\x7fELF...")
    with naming(f"zap:{tmp_path / 'good.so'}") as runtime:
        (message,) = reported(runtime)
    assert (
        "no installed plugin can load PJRT libraries. Install the PJRT loader (devrt-tpu)"
        in message
    )


# -- plugins --------------------------------------------------------------------------------------

PLUGINS = {
    "a missing module": ("import no_such_module", "a module that it needs, 'no_such_module'"),
    "a failing import": ("1 / 0", "raised ZeroDivisionError"),
    "an import that leaves": ("raise SystemExit(3)", "raised SystemExit: 3"),
    "a failing initialize()": ("def initialize(): raise OSError('no card')", "OSError: no card"),
    "no hook": ("x = 1", "implements no hook"),
}


@pytest.mark.parametrize("what", PLUGINS)
def test_a_plugin_that_fails(plugins, reported, what):
    source, words = PLUGINS[what]
    plugins.add("bad", source)
    plugins.add("cpu")
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
        assert words in message
        assert "plugin fake-bad 1.0" in message
        assert "fake-bad" in message.partition(words)[2], "the remedy names the distribution"
    with plugins.runtime() as runtime:
        assert reported(runtime, "cpu") == [], "it has no part in this"
    for variable in ("DEVRT_PLATFORMS", "DEVRT_PLATFORM_NAME"):
        with plugins.runtime(**{variable: "cpu"}) as runtime:
            assert reported(runtime) == []


def test_a_module_that_is_not_there(plugins, reported, write_distribution):
    plugins.add("cpu")
    write_distribution(plugins.path, "gone", "[devrt_plugins]\ngone = no_such_module\n")
    with plugins.runtime() as runtime:
        (message,) = reported(runtime)
    assert "'no_such_module', is not installed. Reinstall it with: pip install" in message


def test_a_plugin_that_crashes_in_its_child(plugins):
    plugins.add("bad", "import os; os.abort()")
    plugins.add("cpu")
    words = "was killed by SIGABRT while it was loaded"
    with (
        plugins.runtime(DEVRT_PROBE="isolated") as runtime,
        pytest.warns(DiscoveryWarning, match=words),
    ):
        assert runtime.get_backend().platform == "cpu"


def test_wheels_for_others_that_bring_no_backend_are_no_fault(
    plugins, reported, write_distribution
):
    plugins.add("cpu")
    write_distribution(plugins.path, "helper", "[jax_plugins]\nhelper = no_such_module\n")
    with plugins.runtime() as runtime:
        assert reported(runtime) == []


# -- warnings as errors ---------------------------------------------------------------------------


def test_where_warnings_are_errors_nothing_is_half_done(plugins, machine):
    cpu = plugins.add("cpu")
    plugins.add("bad", "import no_such_module")
    write(machine, "dev/nvidia0")
    with plugins.runtime(DEVRT_PLATFROMS="cpu") as runtime:
        for words in ("DEVRT_PLATFROMS", "no_such_module", "NVIDIA GPU"):
            with pytest.raises(DiscoveryWarning, match=words):
                runtime.get_backend()
            assert runtime.live_clients() == {}
            assert sys.modules[cpu].contexts == []
        assert runtime.get_backend().platform == "cpu"
