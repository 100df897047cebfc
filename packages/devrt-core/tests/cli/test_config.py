"""``devrt config``: every option with its value and where that comes from."""

import json

from devrt.cli import settings


def report(run_python, **environ):
    done = run_python("-m", "devrt", "config", "--json", **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_option_says_where_its_value_comes_from(run_python, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('platform_name = "acme"\n')
    shown = report(
        run_python,
        DEVRT_PLATFORMS="acme",
        DEVRT_CONFIG_FILE=str(file),
        DEVRT_UNHEARD_OF="1",
    )
    rows = {row["name"]: row for row in shown["options"]}
    assert rows["platforms"]["value"] == "acme"
    assert (rows["platforms"]["origin"], rows["platforms"]["detail"]) == (
        "environment",
        "DEVRT_PLATFORMS",
    )
    assert rows["platform_name"]["detail"] == str(file)
    assert rows["probe"] == {
        "name": "probe",
        "value": "in-process",
        "origin": "default",
        "detail": "",
        "help": rows["probe"]["help"],
        "unit": "",
    }
    assert rows["num_acme_devices"]["value"] == 2
    assert shown["files"] == [str(file)]
    assert shown["unread"] == ["DEVRT_UNHEARD_OF"]


def test_the_table_names_them_too(run_python):
    done = run_python("-m", "devrt", "config", DEVRT_PLATFORMS="acme")
    assert done.returncode == 0, done.stderr
    assert "environment DEVRT_PLATFORMS" in done.stdout
    assert "num_acme_devices" in done.stdout


def test_everything_that_is_wrong_is_listed_beside_what_is_right(run_python, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text("platforms = [")
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.devrt]\nplatfrom_name = 'cpu'\nprobe = 'never'\ninit_timeout = 7\n")
    done = run_python(
        *("-m", "devrt", "config", "--json"),
        DEVRT_CONFIG_FILE=str(bad),
        DEVRT_ALLOW_EXPERIMENTAL="maybe",
    )
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    rows = {row["name"]: row for row in shown["options"]}
    assert (rows["init_timeout"]["value"], rows["init_timeout"]["detail"]) == (7, str(project))
    refused = {name: row["detail"] for name, row in rows.items() if row["origin"] == "refused"}
    assert set(refused) == {"probe", "allow_experimental"}
    assert "DEVRT_ALLOW_EXPERIMENTAL" in refused["allow_experimental"]
    assert rows["probe"]["value"] is None
    assert shown["files"] == [str(project)]
    for what in (f"{bad} is no valid TOML", "no option 'platfrom_name'", "'never'", "'maybe'"):
        assert sum(what in problem for problem in shown["problems"]) == 1, what
    assert len(shown["problems"]) == 4


def test_a_refused_value_has_a_row_and_one_message(run_python):
    environ = {"DEVRT_PLATFORMS": "acme", "DEVRT_NUM_ACME_DEVICES": "many"}
    done = run_python("-m", "devrt", "config", **environ)
    assert done.returncode == 1
    assert "refused environment variable DEVRT_NUM_ACME_DEVICES" in done.stdout
    assert done.stderr.startswith("devrt: ConfigError: environment variable")
    assert "takes a whole number, not 'many'" in done.stderr


def test_a_size_is_shown_in_larger_units_too():
    row = {"value": 2 << 30, "unit": "bytes"}
    assert settings._in_words(row) == "2147483648 (2.0 GiB)"
    assert settings._in_words(row | {"value": -1}) == "-1"


def test_a_variable_that_is_no_option_s_comes_with_what_may_be_meant(run_python):
    done = run_python("-m", "devrt", "config", DEVRT_ACME_DEVICES="2")
    assert "no option: DEVRT_ACME_DEVICES. Did you mean DEVRT_NUM_ACME_DEVICES?" in done.stdout
