"""Drivers and environment variables that a manifest names: read, compared, shown."""

from pathlib import Path

import pytest

from devrt.doctor import diagnose
from devrt.errors import PluginContractError
from devrt.plugins import PluginRef, PluginRegistry, parse_manifest
from devrt.records import Unavailable

REF = PluginRef("acme2", "acme-dist", "1.5", "acme2_pkg.plugin")
PATH = Path("somewhere/devrt.toml")
DRIVER = """
[[backend.drivers]]
name = "the Acme driver"
path = ["/proc/acme", "/sys/module/acme/version"]
after = "Module"
remedy = "Install another."
"""
VARIABLE = '[[backend.environment]]\nname = "ACME_CARDS"\nabout = "the cards to use"\n'


def manifest(text):
    return f"schema = 1\n[[backend]]\n{text}"


def parsed(text):
    (backend,) = parse_manifest(manifest(text), REF, PATH)
    return backend


def missing(root, limits, text, path="sys/module/acme/version"):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return parsed(DRIVER + limits).missing(root)


@pytest.mark.parametrize(
    ("version", "limits", "words"),
    [
        ("2.4", 'minimum = "2.10"', "is of version 2.4, older than 2.10, the oldest that works"),
        ("2.10", 'minimum = "2.10"', ""),
        ("2.10.0", 'minimum = "2.10"', ""),
        ("2.10", 'minimum = "2.10.0"', ""),
        ("3.9.1", 'maximum = "3"', ""),
        ("4.0", 'maximum = "3"', "is of version 4.0, newer than 3, the newest that works"),
        ("3.10", 'minimum = "3.2"\nmaximum = "3.9"', "newer than 3.9"),
        ("no number", 'minimum = "9"', ""),
        ("7", 'minimum = "9"', ""),  # no number with dots
    ],
)
def test_a_driver_is_compared_by_numbers(tmp_path, version, limits, words):
    found = missing(tmp_path, limits, f"Acme 1.1 for x86_64 Module  {version} of Thu Oct 19\n")
    if not words:
        assert found is None
        return
    assert found.reason.startswith("the Acme driver ")
    assert words in found.reason
    assert found.remedy == "Install another."


def test_the_first_file_counts_and_none_says_nothing(tmp_path):
    limits = 'minimum = "2.0"'
    assert parsed(DRIVER + limits).missing(tmp_path) is None
    assert missing(tmp_path, limits, "Module 1.0") is not None
    assert missing(tmp_path, limits, "Module 3.0", "proc/acme") is None


def test_simulated_devices_take_any_driver(tmp_path):
    limits = 'minimum = "2.0"\nunless_set = "DEVRT_ACME_MOCK"'
    assert missing(tmp_path, limits, "Module 1.0") is not None
    backend = parsed(DRIVER + limits)
    assert backend.simulating(lambda name: name == "DEVRT_OTHER") == frozenset()
    simulating = backend.simulating(lambda name: name == "DEVRT_ACME_MOCK")
    assert backend.missing(tmp_path, simulating) is None


def test_a_file_without_an_end_is_not_read_whole(tmp_path):
    assert missing(tmp_path, 'minimum = "2.0"', "#" * 5000 + "Module 1.0") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DRIVER, "drivers[0] needs a path, and a minimum or a maximum"),
        (f'{DRIVER}minimum = "new"', "minimum must be numbers with dots, such as '525.60'"),
        (f'{DRIVER}minimum = "1."', "minimum must be numbers with dots"),
        (f"{DRIVER}minimum = 2", "minimum must be a string"),
        (f'{DRIVER}minimum = "1"\npattern = "x"', "drivers[0] has no key 'pattern'"),
        ('[[backend.drivers]]\nname = "a"', "drivers[0] lacks path, remedy"),
        ('[[backend.environment]]\nname = "A"', "environment[0] lacks about"),
        ('[[backend.environment]]\nname = "A B"\nabout = "x"', "needs the name of a variable"),
    ],
)
def test_tables_that_are_not_valid(text, words):
    with pytest.raises(PluginContractError) as caught:
        parsed(text)
    assert words in str(caught.value)


def test_a_driver_out_of_range_keeps_the_plugin_from_being_imported(plugins, tmp_path):
    file = tmp_path / "version"
    file.write_text("Module 1.0")
    text = DRIVER.replace("/proc/acme", str(file)) + 'minimum = "2.0"'
    plugins.package("acme2", manifest(text), "raise AssertionError")
    (candidate,) = PluginRegistry(plugins.refs).candidates()
    why = "the Acme driver is of version 1.0, older than 2.0, the oldest that works"
    assert candidate.state == Unavailable(why, "Install another.")
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    finding = next(f for f in report.findings if f.code == "platform-unavailable")
    assert why in finding.message
    assert finding.remedy == "Install another."


def test_the_doctor_shows_variables_that_are_set_and_what_reads_them(plugins, tmp_path):
    plugins.package("acme2", manifest(VARIABLE))
    other = VARIABLE.replace("ACME_CARDS", "DEVRT_ACME3_MODE")
    plugins.package("acme3", manifest(other + VARIABLE))
    environ = {"ACME_CARDS": "0,1", "DEVRT_ACME3_MODE": "fast"}
    with plugins.runtime(**environ) as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    shown = {variable.name: variable for variable in report.environment}
    assert shown["ACME_CARDS"].value == "0,1"
    assert shown["ACME_CARDS"].about == ("acme2: the cards to use", "acme3: the cards to use")
    assert "env-unknown" not in {f.code for f in report.findings}


def test_devrt_config_lists_variables_set_or_not(plugins, monkeypatch, capsys):
    from devrt.cli import settings

    plugins.package("acme2", manifest(VARIABLE + VARIABLE.replace("CARDS", "MODE")))
    with plugins.runtime(ACME_MODE="fast") as runtime:
        monkeypatch.setattr(settings, "default_runtime", lambda: runtime)
        report = settings.settings()
    assert report["variables"] == [
        {"name": "ACME_CARDS", "value": None, "about": ["acme2: the cards to use"]},
        {"name": "ACME_MODE", "value": "fast", "about": ["acme2: the cards to use"]},
    ]
    settings.show(report)
    assert "ACME_CARDS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  515.43.04  Thu Oct 19", "515.43.04"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  470.1  Release", "470.1"),
    ],
)
def test_what_the_manifest_of_cuda_reads(tmp_path, text, version):
    refs = [ref for ref in PluginRegistry().refs() if ref.name == "cuda@devrt-cuda"]
    if not refs:
        pytest.skip("devrt-cuda is not installed")
    found = PluginRegistry().manifest(refs[0])
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(text)
    reason = found.missing(tmp_path).reason
    assert f"is of version {version}, older than 525," in reason
