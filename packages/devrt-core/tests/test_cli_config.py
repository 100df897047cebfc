"""``devrt config``: every option with its value and where that comes from."""

import json


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
    }
    assert rows["num_acme_devices"]["value"] == 2
    assert shown["files"] == [str(file)]
    assert shown["unread"] == ["DEVRT_UNHEARD_OF"]


def test_the_table_names_them_too(run_python):
    done = run_python("-m", "devrt", "config", DEVRT_PLATFORMS="acme")
    assert done.returncode == 0, done.stderr
    assert "environment DEVRT_PLATFORMS" in done.stdout
    assert "num_acme_devices" in done.stdout


def test_a_bad_file_is_one_message(run_python, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text("platforms = [")
    done = run_python("-m", "devrt", "config", DEVRT_CONFIG_FILE=str(file))
    assert done.returncode == 1
    assert done.stderr.startswith("devrt: ConfigError: configuration file")
    assert "Traceback" not in done.stderr
