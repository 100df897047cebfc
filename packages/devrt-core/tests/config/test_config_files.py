"""Configuration files: where they are looked for, what they may say, and what is refused."""

import json
import os

import pytest

from devrt._config.files import read_config_files
from devrt._config.layers import Config
from devrt.errors import ConfigError, DevrtWarning
from devrt.records import OptionSpec

NUM = OptionSpec(name="num_acme_devices", type=int, default=2, minimum=1)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a working directory below an empty project folder, and a home beside it."""
    inner = tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return tmp_path / "project"


def environ(tmp_path, **variables):
    return {"HOME": str(tmp_path / "home"), **variables}


def read_all(config):
    for name in ("platforms", "probe", "init_timeout"):
        config.read(name)


def user_file(tmp_path, text, folder="home/.config"):
    path = tmp_path / folder / "devrt" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_each_file_covers_the_weaker_and_the_environment_covers_both(project, tmp_path):
    path = user_file(tmp_path, 'platforms = "user"\nplatform_name = "user"\n')
    file = project / "pyproject.toml"
    file.write_text('[tool.devrt]\nplatforms = "project"\n')
    config = Config(environ(tmp_path))
    setting = config.setting("platforms")
    assert (setting.value, setting.origin, setting.detail) == ("project", "file", str(file))
    assert config.setting("platform_name").detail == str(path)
    over = Config(environ(tmp_path, DEVRT_PLATFORMS="environment"))
    assert over.setting("platforms").origin == "environment"


def test_the_nearest_project_file_ends_the_search(project, tmp_path):
    (project / "pyproject.toml").write_text('[tool.devrt]\nplatforms = "outer"\n')
    (project / "src" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert Config(environ(tmp_path)).read("platforms") is None


def test_the_folder_and_the_file_can_be_named(project, tmp_path):
    user_file(tmp_path, 'platforms = "xdg"\n', "elsewhere")
    there = environ(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "elsewhere"))
    assert Config(there).read("platforms") == "xdg"
    named = tmp_path / "mine.toml"
    named.write_text('platforms = "named"\n')
    assert Config(there | {"DEVRT_CONFIG_FILE": str(named)}).read("platforms") == "named"


def test_without_any_file_or_home_there_is_nothing_to_read(project):
    assert read_config_files({}, os.getcwd()) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.devrt\n", "no valid TOML"),
        ("[tool]\ndevrt = 3 # tool.devrt\n", "must be a table"),
        ('[tool.devrt]\nplatfroms = "cpu"\n', "Did you mean 'platforms'"),
        ("[tool.devrt]\nplatforms = 3\n", "takes text"),
        ('[tool.devrt]\nprobe = "somewhere"\n', "takes 'in-process' or 'isolated'"),
        ("[tool.devrt]\ninit_timeout = -1\n", "at least"),
    ],
)
def test_a_bad_project_file_is_one_error_that_names_it(project, tmp_path, text, message):
    path = project / "pyproject.toml"
    path.write_text(text)
    config = Config(environ(tmp_path))
    with pytest.raises(ConfigError, match=message) as caught:
        read_all(config)
    assert str(path) in str(caught.value)


def test_a_named_file_must_be_there(project, tmp_path):
    config = Config(environ(tmp_path, DEVRT_CONFIG_FILE=str(tmp_path / "absent.toml")))
    with pytest.raises(ConfigError, match="does not exist"):
        config.read("platforms")


def test_bytes_that_are_no_text_are_an_error(project, tmp_path):
    (project / "pyproject.toml").write_bytes(b"# tool.devrt \xff\n")
    with pytest.raises(ConfigError, match="no valid TOML"):
        Config(environ(tmp_path)).read("platforms")


def test_a_plugins_option_may_be_set_before_the_plugin_is_loaded(project, tmp_path):
    (project / "pyproject.toml").write_text("[tool.devrt]\nnum_acme_devices = 5\n")
    config = Config(environ(tmp_path))
    loads = []
    config.when_unknown(lambda: loads.append(1), lambda: ["acme"])
    assert config.read("platforms") is None
    assert loads == []
    config.define(NUM)
    assert config.setting("num_acme_devices").value == 5


def test_an_absent_plugins_option_is_a_mistake_of_the_project_only(project, tmp_path):
    user_file(tmp_path, "num_acme_devices = 5\n")
    with pytest.warns(DevrtWarning, match="no option 'num_acme_devices' in this environment"):
        assert Config(environ(tmp_path)).read("platforms") is None
    (project / "pyproject.toml").write_text("[tool.devrt]\nnum_acme_devices = 5\n")
    with pytest.raises(ConfigError, match="num_acme_devices"):
        Config(environ(tmp_path)).read("platforms")


def test_files_are_read_once_until_everything_is_cleared(project, tmp_path):
    path = project / "pyproject.toml"
    path.write_text('[tool.devrt]\nplatforms = "one"\n')
    config = Config(environ(tmp_path))
    assert config.read("platforms") == "one"
    path.write_text('[tool.devrt]\nplatforms = "two"\n')
    assert config.read("platforms") == "one"
    config.thaw()
    assert config.read("platforms") == "two"


def test_a_misspelt_variable_is_found_with_the_one_that_was_meant(project, tmp_path):
    config = Config(environ(tmp_path, DEVRT_PLATFROMS="cpu", DEVRT_SOMETHING_ELSE="1"))
    read_all(config)  # the runtime warns, at its first use
    assert config.unread_with_hints() == [
        ("DEVRT_PLATFROMS", ["DEVRT_PLATFORMS"]),
        ("DEVRT_SOMETHING_ELSE", []),
    ]
    assert config.unread() == ("DEVRT_PLATFROMS", "DEVRT_SOMETHING_ELSE")


def test_a_variable_of_a_plugin_is_judged_once_that_is_loaded(tmp_path):
    config = Config(environ(tmp_path, DEVRT_NUM_ACME_DEVICE="5"))
    unloaded = ["acme"]
    config.when_unknown(lambda: None, lambda: unloaded)
    assert config.unread_with_hints() == []
    unloaded.clear()
    config.define(NUM)
    assert config.unread_with_hints() == [("DEVRT_NUM_ACME_DEVICE", ["DEVRT_NUM_ACME_DEVICES"])]


MISSPELT = ("num_acme_device = 5", "num_acme_device", "num_acme_devices")


def with_acme(tmp_path):
    """Return a configuration that knows of a plugin, and a function that loads it."""
    config, unloaded = Config(environ(tmp_path)), ["acme"]
    config.when_unknown(lambda: None, lambda: unloaded)

    def load():
        unloaded.clear()
        config.define(NUM)

    return config, load


@pytest.mark.parametrize("shared", [True, False])
def test_a_misspelt_option_of_a_plugin_is_an_error_once_that_is_loaded(project, tmp_path, shared):
    line, key, near = MISSPELT
    path = user_file(tmp_path, line) if shared else project / "pyproject.toml"
    if not shared:
        path.write_text(f"[tool.devrt]\n{line}\n")
    config, load = with_acme(tmp_path)
    assert config.read("platforms") is None
    assert config.waiting_keys() == [(str(path), key)]
    load()
    for _ in range(2):  # also what was read before
        with pytest.raises(ConfigError, match=rf"no option '{key}'. Did you mean '{near}'") as hit:
            config.read("platforms")
        assert str(path) in str(hit.value)
    path.write_text("[tool.devrt]\n" if not shared else "")
    config.thaw()
    assert config.read("platforms") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('platfroms = "cpu"', "no option 'platfroms'. Did you mean 'platforms'"),
        ("init_timeouts = 3", "Did you mean 'init_timeout'"),
        ("nope = 3", "no option 'nope'. Options:\n"),
        ("[tool.devrt]\nplatforms = 'cpu'", "no option 'tool', and options stand in no table"),
    ],
)
def test_the_users_file_is_checked_too(project, tmp_path, text, message):
    path = user_file(tmp_path, text)
    config = Config(environ(tmp_path))
    for _ in range(2):
        with pytest.raises(ConfigError, match=message) as caught:
            config.read("probe")
        assert caught.value.source == f"configuration file {path}"


def test_the_reason_for_an_absent_option_may_ask_the_configuration(project, tmp_path):
    (project / "pyproject.toml").write_text("[tool.devrt]\nnope = 3\n")
    config = Config(environ(tmp_path))
    config.when_unknown(lambda: None, tuple, lambda name: config.read("platforms") or "Whose.")
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=r"pyproject.toml: no option 'nope'. Whose\. `devrt config`"
        ):
            config.read("platforms")


def test_where_another_process_checks_the_keys_they_are_not(project, tmp_path):
    (project / "pyproject.toml").write_text('[tool.devrt]\nnope = 3\nplatforms = "x"\n')
    assert Config(environ(tmp_path), check_keys=False).read("platforms") == "x"


@pytest.mark.parametrize("command", [["devices"], ["list"], ["config"]])
def test_commands_name_a_misspelt_key_in_one_line(project, run_python, command):
    (project / "pyproject.toml").write_text("[tool.devrt]\nnope = 3\n")
    done = run_python("-m", "devrt", *command)
    assert done.returncode == 1
    assert done.stderr.removeprefix("devrt: ConfigError: ").startswith("configuration file")
    assert "no option 'nope'" in done.stderr


def test_the_doctor_finds_misspelt_keys(project, run_python, tmp_path):
    file = project / "pyproject.toml"
    for line, key in (("nope = 3", "nope"), ("num_acme_device = 3", "num_acme_device")):
        file.write_text(f"[tool.devrt]\n{line}\n")
        done = run_python(
            "-m", "devrt", "doctor", "--json", DEVRT_PLATFORMS="acme", XDG_CACHE_HOME=str(tmp_path)
        )
        assert "Traceback" not in done.stderr
        found = [f for f in json.loads(done.stdout)["findings"] if f["code"] == "config-malformed"]
        assert [f["subject"] for f in found] == [f"configuration file {file}"]
        assert f"no option '{key}'" in found[0]["message"]


def test_the_options_of_other_plugins_are_no_mistake_to_a_probe(project, run_python, tmp_path):
    (project / "pyproject.toml").write_text("[tool.devrt]\nnum_cpu_devices = 3\n")
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    done = run_python("-m", "devrt", "list", "--json", DEVRT_PLATFORMS="acme", **environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["chosen"].startswith("acme@")
    doctor = run_python("-m", "devrt", "doctor", "--json", **environment)
    report = json.loads(doctor.stdout)
    assert "broken" not in {row["state"] for row in report["plugins"]}
    assert [f for f in report["findings"] if f["code"] == "config-malformed"] == []


def test_a_bad_deadline_is_the_configurations_error_not_a_platforms(project, run_python):
    code = "import devrt; devrt.devices('acme')"
    done = run_python("-c", code, DEVRT_INIT_TIMEOUT="0")
    assert "BackendInitializationError" not in done.stderr
    assert "ConfigError: environment variable DEVRT_INIT_TIMEOUT" in done.stderr
    assert ".." not in done.stderr.splitlines()[-1]
