"""`devrt doctor`: its tables, its JSON, its exit status; and the lists that share its code."""

import json
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
    def run(*arguments):
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    return run


@pytest.fixture
def good(plugins):
    plugins.add("good", priority=1)
    return plugins


def test_status_zero_where_all_is_well(good, as_default, invoke):
    as_default(good.runtime())
    result = invoke("doctor")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("default backend: good@fake-good\n")
    assert "2 x Acme Simulator 1" in result.stdout
    assert result.stdout.endswith("next: devrt devices\n")


def test_status_one_where_something_is_wrong(good, as_default, invoke):
    good.add("bad", "print('\\x1b[31mlast words'); import os; os.abort()", priority=9)
    as_default(good.runtime())
    result = invoke("doctor")
    assert (result.exit_code, result.stderr) == (1, "")
    assert "default backend: good@fake-good" in result.stdout
    assert "error plugin-crashed bad@fake-bad" in result.stdout
    assert "killed by SIGABRT" in result.stdout
    assert "last words" in result.stdout
    assert "\x1b" not in result.stdout
    assert "next: pip install --upgrade fake-bad" in result.stdout
    assert invoke("doctor", "--fresh").exit_code == 1


def test_status_two_where_nothing_can_be_used(plugins, as_default, invoke):
    as_default(plugins.runtime())
    result = invoke("doctor")
    assert result.exit_code == 2
    assert "default backend: none" in result.stdout
    assert "next: pip install ./packages/devrt-cpu" in result.stdout


def test_json(good, as_default, invoke):
    good.add("bad", "import os; os._exit(7)")
    as_default(good.runtime())
    result = invoke("doctor", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["status"], report["schema"]) == (1, 1, 1)
    assert {row["platform"]: row["state"] for row in report["plugins"]} == {
        "good": "chosen",
        "bad": "broken",
    }
    codes = [f["code"] for f in report["findings"]]
    assert "plugin-exited" in codes


def test_options(good, as_default, invoke):
    good.add("bad", make="import os; os.abort()")
    as_default(good.runtime())
    assert invoke("doctor", "--level", "load").exit_code == 0
    assert invoke("doctor", "--level", "metadata").exit_code == 0
    assert invoke("doctor", "--platform", "good").exit_code == 0
    assert invoke("doctor", "--platform", "bad").exit_code == 2
    assert invoke("doctor", "--timeout", "90").exit_code == 1


@pytest.mark.parametrize(
    "arguments", [("--level", "all"), ("--timeout", "0"), ("--timeout", "x"), ("x",)]
)
def test_a_wrong_use_is_reported_in_words(invoke, arguments):
    result = invoke("doctor", *arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_text_of_plugins_is_no_markup(good, as_default, invoke):
    good.add(
        "unusual", probe="return Unavailable('no [bold]card[/bold] [/x]', 'Buy \\x1b[31mone.')"
    )
    as_default(good.runtime())
    for command in ("doctor", "list"):
        result = invoke(command)
        assert "no [bold]card[/bold] [/x]" in result.stdout, command
        assert "\x1b" not in result.stdout, command


def test_the_list_survives_what_the_doctor_survives(good, as_default, invoke):
    good.add("bad", "import os; os.abort()", priority=9)
    as_default(good.runtime())
    result = invoke("list", "--json")
    assert result.exit_code == 0
    rows = {row["platform"]: row for row in json.loads(result.stdout)["backends"]}
    assert (rows["good"]["state"], rows["bad"]["state"]) == ("chosen", "broken")
    assert "SIGABRT" in rows["bad"]["reason"]


def test_the_list_shows_plugins_that_only_add(good, as_default, invoke):
    good.add(
        "good",
        """
        from devrt.hookspecs import hookimpl
        from devrt.records import MemoryKind
        @hookimpl
        def devrt_memory_kinds():
            return [MemoryKind(platform="good", kind="slow")]
        """,
        distribution="slow-memory",
    )
    as_default(good.runtime())
    result = invoke("list")
    assert result.exit_code == 0
    assert "slow-memory 1.0" in result.stdout
    assert "adds memory kinds good:slow" in result.stdout


def test_the_list_shows_plugins_that_only_bring_traits(
    good, as_default, invoke, write_distribution
):
    folder = good.path / "traits_pkg"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from devrt.hookspecs import hookimpl\nfrom devrt.records import PluginTraits\n"
        "@hookimpl\ndef devrt_plugin_traits():\n"
        "    return [PluginTraits(platforms=('good',)), PluginTraits(patterns=('libbolt*',))]\n"
    )
    manifest = 'schema = 1\n[[backend]]\nplatform = "good"\nplugin_traits = true\n'
    (folder / "devrt.toml").write_text(manifest)
    write_distribution(good.path, "good-traits", "[devrt_plugins]\ngood = traits_pkg\n")
    as_default(good.runtime())
    result = invoke("list")
    assert "adds traits of PJRT libraries of good, libbolt*" in result.stdout


def test_the_list_says_not_imported_only_of_what_was_not(good, as_default, invoke):
    good.add("other")
    runtime = as_default(good.runtime(DEVRT_PLATFORMS="good"))

    def reason():
        rows = json.loads(invoke("list", "--json").stdout)["backends"]
        return next(row["reason"] for row in rows if row["platform"] == "other")

    assert reason() == "DEVRT_PLATFORMS allows only good; not imported"
    runtime.plugins.load(good.ref("other"))
    assert reason() == "DEVRT_PLATFORMS allows only good"


def test_warnings_are_messages_within_a_command_only(good, as_default, invoke):
    good.add("unusual", experimental=True)
    as_default(good.runtime())
    former = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = invoke("devices", "--platform", "unusual")
    assert "devrt: DevrtWarning: platform 'unusual'" in result.stderr
    assert warnings.showwarning is former


def test_the_list_says_what_to_do_once(plugins, as_default, invoke):
    plugins.add("bad", "raise ValueError('boom')")
    as_default(plugins.runtime())
    (row,) = json.loads(invoke("list", "--json").stdout)["backends"]
    assert row["remedy"] == "Reinstall or upgrade it, or uninstall fake-bad."
    assert row["remedy"] not in row["reason"]
    assert row["reason"].endswith("ValueError: boom")
