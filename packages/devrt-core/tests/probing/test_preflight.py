"""The preflight of a plugin in a child: its outcome as a state, and anew in each process."""

import pytest

from devrt.errors import BackendInitializationError
from devrt.plugins import Broken, PluginRef, PluginRegistry
from devrt.probing.isolated import Level, ProbeReport, ProbeRequest, probe_all, probe_isolated
from devrt.probing.preflight import Preflight, state_of
from devrt.records import Available, Unavailable
from support import shared_library


def isolated_state(ref):
    return state_of(ref, probe_isolated(ref, Level.LOAD, timeout=60))


def test_states_of_real_plugins(plugins):
    plugins.add("one", probe="return Available('two of them')")
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("crash", "import os; os.abort()")
    plugins.add("lacking", "import no_such_library")
    states = {ref.platform: isolated_state(ref) for ref in plugins.refs()}
    assert states["one"] == Available("two of them")
    assert states["away"] == Unavailable("no card", "Buy one.")
    assert states["crash"].phase == "probe"
    assert states["crash"].reason == "it was killed by SIGABRT while it was loaded"
    assert "fake-crash" in states["crash"].remedy
    assert states["lacking"].phase == "load"
    assert "'no_such_library', is not installed" in states["lacking"].reason


def test_a_client_that_cannot_be_made(plugins):
    plugins.add("one", make="import os; os.abort()")
    plugins.add("two")
    registry, preflight = PluginRegistry(plugins.refs), Preflight(lambda: 60.0)
    broken = preflight.client(registry.resolve(plugins.ref("one")), {})
    assert broken.reason == "it was killed by SIGABRT while it made its client"
    assert preflight.client(registry.resolve(plugins.ref("two")), {}) is None


@pytest.mark.parametrize("outcome", ["signal", "exited", "timeout", "garbled", "raised"])
def test_every_bad_end_is_broken_with_a_remedy(outcome):
    state = state_of(PluginRef("one", "fake-one"), ProbeReport(outcome, "probe", "detail"))
    assert isinstance(state, Broken)
    assert state.reason
    assert state.remedy.endswith(".")


# -- each process tries for itself ----------------------------------------------------------------

# What decides is a variable of the vendor's, or a file: neither is known to devrt.
CRASH_IF = "import os\nif os.environ.get('ACME_BROKEN') or os.path.exists({flag!r}): os.abort()\n"

CHOOSE = """
import devrt
try:
    print(devrt.get_backend("one").platform)
except devrt.errors.DevrtError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture
def one(plugins, tmp_path):
    """Install plugin ``one``, which crashes where a variable or a file says so."""
    flag = tmp_path / "broken"

    def add(place):
        code = CRASH_IF.format(flag=str(flag))
        if place == "import":
            module = plugins.add("one")
            path = plugins.path / f"{module}.py"
            path.write_text(code + path.read_text())
        else:
            make = f"exec({code!r}); return type('C', (AcmeClient,), {{'platform': 'one'}})(1)"
            plugins.add("one", make=make)
        return flag

    return add


@pytest.fixture
def choose(plugins, run_python, tmp_path):
    def run(**environ):
        environ |= {"DEVRT_PROBE": "isolated", "DEVRT_CACHE_DIR": str(tmp_path / "cache")}
        result = run_python("-W", "error", "-c", CHOOSE, path=[plugins.path], **environ)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.mark.parametrize("place", ["import", "client"])
def test_what_crashed_once_is_tried_again(one, choose, place):
    one(place)
    assert "killed by SIGABRT" in choose(ACME_BROKEN="1")
    assert choose() == "one\n"


@pytest.mark.parametrize("place", ["import", "client"])
def test_what_worked_once_still_cannot_end_the_process(one, choose, place):
    flag = one(place)
    assert choose() == "one\n"
    flag.touch()
    assert "killed by SIGABRT" in choose()
    flag.unlink()
    assert choose() == "one\n"


def test_a_process_tries_again_after_clear_backends(plugins, one):
    flag = one("import")
    flag.touch()
    with plugins.runtime(DEVRT_PROBE="isolated") as runtime:
        (verdict,) = runtime.decide().verdicts
        assert "killed by SIGABRT" in verdict.reason
        flag.unlink()
        runtime.clear_backends()
        assert runtime.get_backend("one").platform == "one"


def test_a_plugin_is_loaded_in_one_child_only(plugins, tmp_path):
    notes = tmp_path / "notes"
    plugins.add("one")
    path = plugins.path / "fake_one_plugin.py"
    path.write_text(f"with open({str(notes)!r}, 'a') as file: file.write('x')\n" + path.read_text())
    with plugins.runtime(DEVRT_PROBE="isolated") as runtime:
        for _ in range(3):
            runtime.decide()
    assert notes.read_text() == "xx", "once in the child, once here"


def test_nothing_is_written(plugins, tmp_path, monkeypatch):
    plugins.add("one")
    monkeypatch.setenv("DEVRT_CACHE_DIR", str(tmp_path / "cache"))
    (report,) = probe_all([ProbeRequest(plugins.ref("one"), Level.CLIENT, 60.0)])
    assert report.is_ok
    assert not (tmp_path / "cache").exists()


def test_the_remedy_of_a_client_that_fails_is_kept(plugins):
    plugins.add("one", make="import os; os.abort()")
    with (
        plugins.runtime(DEVRT_PROBE="isolated") as runtime,
        pytest.raises(BackendInitializationError) as caught,
    ):
        runtime.get_backend("one")
    assert "Upgrade fake-one or report this to its author; or uninstall it." in str(caught.value)


def test_what_no_distribution_brings_is_not_to_be_uninstalled():
    ref = PluginRef("one", "(namespace)", module="one")
    state = state_of(ref, ProbeReport("timeout", "load", "1 s"))
    assert "uninstall" not in state.remedy
    assert "DEVRT_INIT_TIMEOUT" in state.remedy


# -- libraries that a call registers --------------------------------------------------------------

REGISTERS = """
import devrt
from devrt.runtime import register_plugin
register_plugin("zap", library_path={library!r}, options={{"count": 2}})
try:
    print(len(devrt.devices("zap")))
except devrt.errors.DevrtError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""


def test_a_library_that_a_call_registers_is_tried_first(add_loader, plugins, run_python, tmp_path):
    source = "__attribute__((constructor)) void f() {__builtin_trap();}"
    library = shared_library(tmp_path / "crash.so", source, "-w")
    check = "lambda library: __import__('ctypes').CDLL(library) and Available()"
    add_loader(f"PjrtLoader(make_client=make_client, check={check})")
    code = REGISTERS.format(library=str(library))
    result = run_python("-c", code, path=[plugins.path], DEVRT_PROBE="isolated")
    assert result.returncode == 0, result.stderr
    assert "was killed by SIG" in result.stdout


def test_the_child_makes_its_client_with_the_options_of_the_call(
    add_loader, plugins, run_python, tmp_path
):
    makes = "lambda library, platform, options, context: ("
    makes += "options['count'], make_client(library, platform, options, context))[1]"
    add_loader(f"PjrtLoader(make_client={makes}, check=check)")
    source = (
        "struct {unsigned long s; void *e; unsigned long v;"
        " void *w; int major, minor;} api = {40, 0, 24, 0, 0, 7};"
        " void *GetPjrtApi(void) {return &api;}"
    )
    library = shared_library(tmp_path / "good.so", source, "-w")
    code = REGISTERS.format(library=str(library))
    result = run_python("-c", code, path=[plugins.path], DEVRT_PROBE="isolated")
    assert result.stdout == "2\n", result.stderr
