"""How backends are named: equal spellings, names that nobody has, and what is suggested then."""

import json

import pytest

from devrt.errors import (
    ConfigError,
    DiscoveryWarning,
    PluginLoadError,
    SelectionError,
    UnknownPlatformError,
)
from devrt.plugins import UNNAMED

SPELLINGS = ["one@My.Dist_Name", "one@my-dist-name", "one@MY__DIST-.name", "ONE@my_dist.name"]


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_of_a_distribution(plugins, write_distribution, name):
    plugins.add("one", distribution="other", priority=9)
    module = plugins.add("two", extra="")
    path = plugins.path / f"{module}.py"
    path.write_text(path.read_text().replace("'two'", "'one'"))
    write_distribution(plugins.path, "My.Dist_Name", f"[devrt_plugins]\none = {module}\n")
    with plugins.runtime() as runtime:
        assert runtime.decide(name).chosen.ref.distribution == "My.Dist_Name"
        assert runtime.get_backend(name).platform == "one"
        assert runtime.get_backend("one@OTHER") is runtime.get_backend("one")
    with plugins.runtime(DEVRT_FORBID_PLATFORMS=name) as runtime:
        assert runtime.decide("one").chosen.ref.distribution == "other"
        with pytest.raises(SelectionError, match="forbids"):
            runtime.get_backend("one@my-dist-name")
    with plugins.runtime(DEVRT_PLATFORMS=name) as runtime:
        assert [ref.name for ref in runtime.plugins.refs_for((name,))] == ["one@My.Dist_Name"]


def message(runtime, name):
    with pytest.raises(UnknownPlatformError) as caught:
        runtime.get_backend(name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("zzz", "'zzz'. No package for it is known. Installed: one."),
        ("ons", "Did you mean 'one'? Installed: one."),
        ("cpu", "backend with: pip install ./packages/devrt-cpu (in devrt's checkout). Installed"),
        ("gpu", '"./packages/devrt-cuda[xla]" (in devrt\'s checkout). Installed: one.'),
        ("one@nobody", "another distribution; ask for 'one@fake-one'. Installed: one."),
        ("xla_cpu_pjrt", "pip install xla-cpu-pjrt. Installed: one."),
    ],
)
def test_what_is_suggested_is_known(plugins, name, words):
    plugins.add("one")
    assert words in message(plugins.runtime(), name)


@pytest.mark.parametrize("name", ["", "a b", "a@b", "a,b"])
def test_an_entry_point_that_cannot_be_requested(plugins, write_distribution, name):
    plugins.add("one")
    write_distribution(plugins.path, "unusual", f"[devrt_plugins]\n{name} = unusual_module\n")
    with plugins.runtime() as runtime:
        with pytest.warns(DiscoveryWarning, match="which cannot be requested"):
            assert runtime.get_backend().platform == "one"
        verdicts = {v.candidate.ref.distribution: v for v in runtime.decide().verdicts}
        assert verdicts["unusual"].outcome.value == "broken"
        assert f"is called {name!r}, which cannot be requested" in verdicts["unusual"].reason
        (ref,) = [ref for ref in runtime.plugins.refs() if ref.distribution == "unusual"]
        assert ref.platform == UNNAMED
        with pytest.raises(PluginLoadError, match="an entry point of unusual"):
            runtime.plugins.load(ref)
        assert message(runtime, "nonsense").count("an entry point of unusual") == 1


def test_several_names_of_which_the_policy_excludes_one(plugins):
    plugins.add("one")
    plugins.add("two")
    runtime = plugins.runtime(DEVRT_PLATFORMS="one")
    with pytest.raises(SelectionError, match=r"'two' is installed .* only one\. Add 'two'"):
        runtime.get_backend("one,two")


def test_a_remedy_is_reported_once(plugins):
    for name in ("one", "two"):
        plugins.add(name, probe="return Unavailable('no card', 'Buy a card.')")
    plugins.add("bad", "raise OSError('gone')")
    with pytest.raises(SelectionError) as caught:
        plugins.runtime().get_backend()
    text = str(caught.value)
    assert text.count("Buy a card.") == 1
    assert text.count("no card") == 2
    assert text.count("uninstall") == 1


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DEVRT_FORBID_PLATFORMS": "one"}, r"platform 'one' \(fake-one 1.0\), which DEVRT_FORBID"),
        ({"DEVRT_PLATFORMS": "two"}, "not loaded: DEVRT_PLATFORMS allows only two"),
        ({}, "Did you mean 'num_one_parts'"),
    ],
)
def test_an_option_whose_plugin_is_not_loaded(plugins, environ, words):
    options = "(OptionSpec(name='num_one_parts', type=int, default=3, maximum=8),)"
    plugins.add("one", options=options)
    plugins.add("two")
    name = "num_one_parts" if environ else "num_one_part"
    with plugins.runtime(**environ) as runtime, pytest.raises(ConfigError, match=words):
        runtime.config.update(name, 4)


def test_an_option_of_what_is_not_installed(plugins):
    with pytest.raises(ConfigError, match=r"option of devrt-cpu, which is not installed: pip inst"):
        plugins.runtime().config.update("num_cpu_devices", 4)


def test_the_greatest_value_of_an_option(plugins):
    options = "(OptionSpec(name='num_one_parts', type=int, default=3, maximum=8),)"
    plugins.add("one", options=options)
    with plugins.runtime(DEVRT_NUM_ONE_PARTS="9") as runtime:
        with pytest.raises(ConfigError) as caught:
            runtime.get_backend()
        assert str(caught.value) == (
            "environment variable DEVRT_NUM_ONE_PARTS: option 'num_one_parts' must be at most 8, "
            "not '9'."
        )
        runtime.config.update("num_one_parts", 8)
        assert runtime.get_backend().platform == "one"


LIST = ["-m", "devrt", "list", "--json"]


def listed(result):
    report = json.loads(result.stdout)
    return report, {row["platform"]: row["state"] for row in report["backends"]}


def test_the_platform_name_excludes_nobody(plugins, run_python, tmp_path):
    plugins.add("aaa")
    plugins.add("bbb", priority=5)
    cache = {"DEVRT_CACHE_DIR": str(tmp_path / "c"), "DEVRT_FORBID_PLATFORMS": "acme,cpu"}
    result = run_python(*LIST, path=[plugins.path], DEVRT_PLATFORM_NAME="aaa", **cache)
    report, states = listed(result)
    assert (states["aaa"], states["bbb"], result.returncode) == ("chosen", "eligible", 0)
    assert report["backends"][0]["reason"] == "DEVRT_PLATFORM_NAME names aaa"


def test_a_refused_option_is_no_choice(plugins, run_python, tmp_path):
    options = "(OptionSpec(name='num_aaa_parts', type=int, default=3),)"
    plugins.add("aaa", options=options)
    cache = {"DEVRT_CACHE_DIR": str(tmp_path / "c"), "DEVRT_PLATFORMS": "aaa"}
    result = run_python(*LIST, path=[plugins.path], DEVRT_NUM_AAA_PARTS="abc", **cache)
    report, states = listed(result)
    assert (report["chosen"], states["aaa"], result.returncode) == (None, "broken", 1)
    words = (
        "environment variable DEVRT_NUM_AAA_PARTS: option 'num_aaa_parts' takes a whole number, "
        "not 'abc'."
    )
    assert report["problem"] == words


@pytest.mark.parametrize(
    "command", [("list",), ("devices",), ("config",), ("doctor",), ("--help",)]
)
def test_output_that_cannot_be_written(command, tmp_path, run_python):
    code = (
        "import subprocess, sys\n"
        "def run(target):\n"
        "    done = subprocess.run([sys.executable, '-m', 'devrt', *sys.argv[1:]], stdout=target,\n"
        "                          stderr=subprocess.PIPE, text=True)\n"
        "    print([done.returncode, done.stderr])\n"
        "run(open('/dev/full', 'w'))\n"
        "import os; read, write = os.pipe(); os.close(read); run(write)\n"
    )
    environ = {"DEVRT_CACHE_DIR": str(tmp_path), "DEVRT_PLATFORMS": "cpu"}
    result = run_python("-c", code, *command, **environ)
    full, closed = map(eval, result.stdout.splitlines())
    assert full == [1, "devrt: the output could not be written: No space left on device.\n"]
    assert closed == [1, ""]


def test_tables_in_a_pipe_have_one_line_a_row(plugins, run_python, tmp_path):
    long = "there is " + "no " * 150 + "card"
    plugins.add("aaa", probe=f"return Unavailable({long!r}, 'Buy one.')")
    environ = {"DEVRT_CACHE_DIR": str(tmp_path / "c"), "DEVRT_FORBID_PLATFORMS": "acme"}
    lines = run_python("-m", "devrt", "list", path=[plugins.path], **environ).stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("aaa")]
    assert long in line
    assert all(line == line.rstrip() for line in lines)
    assert (
        len({line.index(word) for line, word in ((lines[0], "distribution"), (line, "fake"))}) == 1
    )


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"DEVRT_PROBE": "maybe"}, "'probe' takes 'in-process' or 'isolated', not 'maybe'"),
        ({"DEVRT_INIT_TIMEOUT": "0"}, "'init_timeout' must be at least 0.001, not '0'"),
        ({"DEVRT_INIT_TIMEOUT": "-1"}, "'init_timeout' must be at least"),
        ({"DEVRT_INIT_TIMEOUT": "1e999"}, "'init_timeout' takes a number, not '1e999'"),
        ({"DEVRT_INIT_TIMEOUT": "nan"}, "'init_timeout' takes a number, not 'nan'"),
        ({"DEVRT_ALLOW_EXPERIMENTAL": "perhaps"}, "takes true or false, not 'perhaps'"),
        ({"DEVRT_CONFIG_FILE": "/nope"}, "DEVRT_CONFIG_FILE names '/nope', which does not exist"),
        ({"DEVRT_CONFIG_FILE": "/"}, "configuration file / cannot be read: Is a directory"),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["list", "devices"])
def test_a_value_that_is_refused_is_one_message(run_python, tmp_path, command, environ, words):
    result = run_python("-m", "devrt", command, DEVRT_CACHE_DIR=str(tmp_path), **environ)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("devrt: ConfigError: ")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_is_nested_too_deep(run_python, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("a = " + "[" * 5000)
    result = run_python("-m", "devrt", "list", DEVRT_CONFIG_FILE=str(file))
    assert (result.returncode, result.stdout) == (1, "")
    assert "is no valid TOML" in result.stderr
