"""The commands: what they print, where, and how they end."""

import importlib.metadata
import json
import re
import warnings

import pytest
from click.testing import CliRunner

from devrt.cli import main


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Keep verdicts out of the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def invoke():
    """Run a command in this process."""
    former = warnings.showwarning

    def run(*arguments):
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert warnings.showwarning is former, "a command must leave warnings as they were"
        return result

    return run


@pytest.fixture
def two(plugins, as_default):
    """Install two platforms, of which ``one`` is the default."""
    plugins.add("one", priority=5, version="1.2")
    plugins.add("two", aliases=("second",))
    return as_default(plugins.runtime())


def failed(result, words):
    """Check that a command ended with one message on standard error and nothing else."""
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.search(words, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("devrt: ") == 1
    return result


def test_devices_of_every_backend_the_default_first(two, invoke):
    result = invoke("devices")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["device", "kind", "memories", "in", "use", "limit"]
    assert [line.split()[0] for line in lines[1:5]] == ["one:0", "one:1", "two:0", "two:1"]
    assert "Acme Simulator 1" in lines[1]
    assert "0 B" in lines[1]
    assert set(two.live_clients()) == {"one", "two"}


def test_devices_of_one_platform(two, invoke):
    result = invoke("devices", "--platform", "second")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 4
    assert set(two.live_clients()) == {"two"}


def test_devices_as_json(two, invoke):
    result = invoke("devices", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    assert set(report) == {"default", "devices", "failures"}
    assert len(report["devices"]) == 4
    assert report["failures"] == []
    assert report["devices"][1] == {
        "platform": "one",
        "id": 1,
        "kind": "Acme Simulator 1",
        "process_index": 0,
        "local_hardware_id": 1,
        "memories": ["device"],
        "bytes_in_use": 0,
        "bytes_limit": None,
        "platform_version": "acme simulator 1",
    }


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_an_unknown_platform_is_one_message(two, invoke, flags):
    words = r"UnknownPlatformError: .*'ones'.*Did you mean 'one'\?.*Installed: one, two"
    result = invoke("devices", "--platform", "ones", *flags)
    if flags:
        error = json.loads(result.stdout)["error"]
        assert (error["type"], error["code"]) == ("UnknownPlatformError", "NOT_FOUND")
        assert f"UnknownPlatformError: {error['message']}" in result.stderr
        assert result.exit_code == 1
    else:
        failed(result, words)


def test_no_backend_is_one_message(plugins, as_default, invoke):
    as_default(plugins.runtime())
    failed(
        invoke("devices"),
        "NoBackendError: no backend is installed.*pip install ./pack.*cpu",
    )
    result = invoke("list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no backend is installed" in result.stderr


def test_a_platform_that_fails_is_one_message(plugins, as_default, invoke):
    plugins.add("bad", make="raise OSError('too old')")
    as_default(plugins.runtime())
    for _ in range(2):
        failed(invoke("devices", "--platform", "bad"), "BackendInitializationError.*too old")


def test_a_bad_variable_is_one_message(plugins, as_default, invoke):
    plugins.add("one", options="(OptionSpec(name='num_one', type=int, default=1),)")
    as_default(plugins.runtime(DEVRT_NUM_ONE="many"))
    failed(invoke("devices", "--platform", "one"), "ConfigError: environment variable DEVRT_NUM_O")


def test_failures_beside_devices_go_to_standard_error(plugins, as_default, invoke):
    plugins.add("one", priority=5)
    plugins.add("bad", make="raise OSError('too old')")
    as_default(plugins.runtime())
    result = invoke("devices")
    assert result.exit_code == 0
    assert "one:1" in result.stdout
    assert "too old" not in result.stdout
    assert "too old" in result.stderr
    (failure,) = json.loads(invoke("devices", "--json").stdout)["failures"]
    assert failure["platform"] == "bad"
    assert "too old" in failure["message"]


def test_where_no_device_is_left_only_the_failure_is_shown(plugins, as_default, invoke):
    plugins.add("one", options="(OptionSpec(name='num_one', type=int, default=1),)")
    as_default(plugins.runtime(DEVRT_NUM_ONE="many"))
    failed(invoke("devices"), "^devrt: ConfigError: environment variable DEVRT_NUM_ONE")


@pytest.fixture
def mixed(plugins, as_default):
    """Install a backend of each state."""
    plugins.add("one", priority=5, version="1.2", experimental=True)
    plugins.add("one", distribution="other-one")
    plugins.add("two", aliases=("second",))
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("broken", "import no_such_library")
    return as_default(plugins.runtime())


STATES = {
    "one@fake-one": "chosen",
    "one@other-one": "shadowed",
    "two@fake-two": "eligible",
    "away@fake-away": "unavailable",
    "broken@fake-broken": "broken",
}


def test_list_gives_every_backend_its_state_and_reason(mixed, invoke):
    result = invoke("list", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    report = json.loads(result.stdout)
    rows = {f"{row['platform']}@{row['distribution']}": row for row in report["backends"]}
    assert {name: row["state"] for name, row in rows.items()} == STATES
    assert report["chosen"] == "one@fake-one"
    assert report["problem"] is None
    assert report["policy"] == {"platforms": [], "source": ""}
    assert rows["one@fake-one"] == {
        "platform": "one",
        "distribution": "fake-one",
        "version": "1.2",
        "priority": 5,
        "experimental": True,
        "aliases": [],
        "state": "chosen",
        "reason": "highest priority (5) among the available",
        "description": "",
        "remedy": "",
        "source": "entry point (devrt_plugins)",
    }
    away = rows["away@fake-away"]
    assert (away["reason"], away["remedy"]) == ("no card", "Buy one.")
    assert "no_such_library" in rows["broken@fake-broken"]["reason"]
    assert mixed.live_clients() == {}, "listing makes no client"


def test_list_as_a_table(mixed, invoke):
    result = invoke("list")
    assert (result.exit_code, result.stderr) == (0, "")
    for name, state in STATES.items():
        platform, _, distribution = name.partition("@")
        assert re.search(rf"^{platform} +{distribution} .* {state} ", result.stdout, re.M), name
    assert "no card. Buy one." in result.stdout


def test_list_shows_what_the_policy_excludes_without_importing_it(
    plugins, as_default, invoke, monkeypatch
):
    plugins.add("one")
    plugins.add("bad", "raise AssertionError('imported')")
    as_default(plugins.runtime(DEVRT_PLATFORMS="one"))
    rows = json.loads(invoke("list", "--json").stdout)["backends"]
    assert {row["platform"]: row["state"] for row in rows} == {"one": "chosen", "bad": "excluded"}
    assert rows[1]["reason"] == "DEVRT_PLATFORMS allows only one; not imported"
    assert rows[1]["priority"] is None
    table = invoke("list").stdout
    assert "allowed: one (DEVRT_PLATFORMS)" in table
    assert "excluded" in table


def test_list_tells_what_is_wrong_when_none_is_chosen(plugins, as_default, invoke):
    plugins.add("one")
    as_default(plugins.runtime(DEVRT_PLATFORMS="none"))
    result = invoke("list")
    assert result.exit_code == 1
    assert result.stderr.startswith("devrt: UnknownPlatformError: Unable to initialize")
    assert "'none' (DEVRT_PLATFORMS)" in result.stderr
    assert "excluded" in result.stdout


def test_version(invoke):
    result = invoke("--version")
    expected = f"devrt {importlib.metadata.version('devrt-core')}\n"
    assert (result.exit_code, result.stdout) == (0, expected)


@pytest.mark.parametrize("command", [(), ("devices",), ("list",), ("demo",)])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help(invoke, command, flag):
    result = invoke(*command, flag)
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: main")


def test_no_sentence_about_a_command_is_cut():
    from click.testing import CliRunner

    from devrt.cli import main

    assert "..." not in CliRunner().invoke(main, ["--help"], terminal_width=80).output.replace(
        "[ARGS]...", ""
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--devices", "0"),
        ("demo", "--devices", "many"),
        ("demo", "--input", "no-such-file"),
        ("devices", "--nonsense"),
        ("nonsense",),
    ],
)
def test_a_wrong_use_ends_with_status_two(invoke, arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


# -- as a program -------------------------------------------------------------------------------


def test_the_module_runs_as_a_program(run_python):
    result = run_python("-m", "devrt", "--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("devrt ")


def test_devices_of_a_real_backend_in_a_program_of_its_own(run_python):
    result = run_python("-m", "devrt", "devices", "--platform", "acme", DEVRT_NUM_ACME_DEVICES="3")
    assert result.returncode == 0, result.stderr
    assert "acme:2" in result.stdout
    assert re.fullmatch(r"devrt: DevrtWarning: platform 'acme' .* experimental.*\n", result.stderr)


def test_an_unknown_platform_in_a_program_of_its_own(run_python):
    result = run_python("-m", "devrt", "devices", "--platform", "acmee")
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(r"devrt: UnknownPlatformError: .*'acme'.*\n", result.stderr)


def test_list_in_a_program_of_its_own_survives_a_broken_plugin(plugins, run_python):
    plugins.add("broken", "raise SystemExit(7)")
    plugins.add("away", "raise AssertionError", distribution="excluded-one")
    result = run_python("-m", "devrt", "list", path=[plugins.path])
    assert (result.returncode, result.stderr) == (0, "")
    assert "SystemExit: 7" in result.stdout
    result = run_python("-m", "devrt", "list", path=[plugins.path], DEVRT_PLATFORMS="acme")
    assert result.returncode == 0
    assert "AssertionError" not in result.stdout
    assert "SystemExit" not in result.stdout


def test_demo_end_to_end(plugins, run_python, tmp_path):
    pytest.importorskip("devrt_cpu")
    plugins.add("one", make="raise RuntimeError('its card is gone')", priority=900)
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "rows.npy", np.arange(70, dtype=np.float32).reshape(10, 7))
    result = run_python(
        *("-m", "devrt", "demo", "--devices", "4", "--input", str(tmp_path / "rows.npy")),
        path=[plugins.path],
    )
    assert result.returncode == 0, result.stderr
    assert "left out: platform 'one' could not be initialised" in result.stdout
    assert "shape (10, 7), float32" in result.stdout
    assert "padded with 2" in result.stdout
    assert "DIFFERENT" not in result.stdout
    passed, total = re.search(r"(\d+) of (\d+) comparisons", result.stdout).groups()
    assert passed == total != "0"


def test_a_backend_that_fails_does_not_hide_another_of_its_platform(plugins, as_default, invoke):
    plugins.add("one", distribution="fake-first", priority=9, make="return None")
    plugins.add("one", distribution="fake-second")
    as_default(plugins.runtime())
    result = invoke("devices", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert len(report["devices"]) == 2
    assert report["default"] == "one"
    assert [failure["platform"] for failure in report["failures"]] == ["one"]


def test_one_platforms_devices_do_not_change_the_default(two, invoke):
    report = json.loads(invoke("devices", "--json", "--platform", "two").stdout)
    assert report["default"] == "one"
    assert {row["platform"] for row in report["devices"]} == {"two"}


def test_a_warning_that_is_an_error_is_one_message(run_python):
    arguments = ("-W", "error", "-m", "devrt", "devices")
    done = run_python(*arguments, DEVRT_PLATFROMS="cpu")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("devrt: DiscoveryWarning: environment variable DEVRT_PLATFROMS")


def test_explain_is_answered_with_the_commands_that_do_it(invoke):
    result = invoke("explain")
    assert result.exit_code == 2
    assert "Type devrt list or devrt doctor" in result.stderr


def test_inspect_asks_one_platform_only(two, invoke, tmp_path):
    program = tmp_path / "a.mlir"
    program.write_text("func.func @main() {\n  return\n}\n")
    rows = json.loads(invoke("inspect", str(program), "--platform", "second", "--json").stdout)
    assert [row["platform"] for row in rows["backends"]] == ["two"]
    failed(invoke("inspect", str(program), "--platform", "ones"), "Did you mean 'one'")
