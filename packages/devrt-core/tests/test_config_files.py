"""Configuration files: where they are looked for, what they may say, and what is refused."""

import os

import pytest

from devrt._config import Config
from devrt._config_files import read_config_files
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
        ("[tool.devrt]\nplatforms = 3\n", "takes str"),
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


def test_a_misspelt_variable_is_warned_about_once(project, tmp_path):
    config = Config(environ(tmp_path, DEVRT_PLATFROMS="cpu", DEVRT_SOMETHING_ELSE="1"))
    with pytest.warns(DevrtWarning, match="DEVRT_PLATFORMS") as caught:
        read_all(config)
    assert len(caught) == 1
    assert config.unread() == ("DEVRT_PLATFROMS", "DEVRT_SOMETHING_ELSE")
