"""Cases of the level load that the mutants of the example cannot reach: plugins that lie."""

import pytest

from devrt.testing import imports
from devrt.testing.conformance import Status, conform

pytest.importorskip("devrt_acme", reason="needs the example backend")


def result(case):
    (found,) = conform("one", cases=[case]).results
    return found


IMPORTS = {
    "import numpy": "the module numpy",
    "import ctypes; ctypes.CDLL('libm.so.6')": "the library libm.so.6",
    "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])": "subprocess.Popen",
    "import os\nif not os.fork(): os._exit(0)": "os.fork",
    "import rich, ml_dtypes": "ml_dtypes",
}


@pytest.mark.parametrize(("code", "came"), IMPORTS.items())
def test_an_import_that_is_not_light(plugins, code, came):
    plugins.add("one", extra=code)
    found = result("load.import_is_light")
    assert found.status is Status.FAILED
    assert came in found.came


@pytest.mark.parametrize(
    ("code", "came"),
    [
        ("import time; time.sleep(0.6)", "by the clock"),
        (
            "t = __import__('time').process_time\nend = t() + 0.05\nwhile t() < end: pass",
            "10 ms of",
        ),
    ],
)
def test_an_import_that_is_not_quick(plugins, code, came):
    plugins.add("one", extra=code)
    found = result("load.import_is_quick")
    assert found.status is Status.FAILED
    assert came in found.expected


@pytest.mark.parametrize("case", ["import_is_quick", "import_is_light"])
@pytest.mark.parametrize("code", ["import os; os._exit(0)", "print('[', flush=True); exit()"])
def test_an_import_that_ends_the_process_gives_no_answer(plugins, case, code):
    plugins.add("one", code)
    found = result(f"load.{case}")
    assert found.status is Status.FAILED
    assert found.came.startswith("no answer: exit status 0")


def test_what_an_import_brings_in_of_the_core_is_not_the_plugins(plugins):
    plugins.add("one", extra="import devrt.numpy, devrt.programs, devrt.contract.client")
    assert result("load.import_is_quick").status is Status.PASSED


@pytest.mark.parametrize(
    ("probe", "came"),
    [
        ("return True", "bool"),
        ("return Unavailable('no card', '')", "Unavailable"),
        ("import time; time.sleep(0.6); return Available()", "0.6"),
        ("return Available(7)", "int"),
    ],
)
def test_a_probe_that_is_wrong(plugins, probe, came):
    plugins.add("one", probe=probe)
    found = result("load.probe_answers")
    assert found.status is Status.FAILED
    assert came in found.came


def test_a_probe_that_is_slow_once_is_right(plugins):
    plugins.add("one", probe="import time; time.sleep(0.6 * (not contexts)); contexts.append(1); "
                "return Available()")  # fmt: skip
    assert result("load.probe_answers").status is Status.PASSED


def test_imports_that_are_not_public(plugins):
    plugins.package("one", extra="from devrt.runtime.runtime import Runtime")
    found = result("load.imports_are_public")
    assert found.status is Status.FAILED
    assert "devrt.runtime.runtime is not in devrt.contract.PUBLIC_MODULES" in found.came


@pytest.mark.parametrize(
    ("manifest", "fields", "status"),
    [
        ("priority = 7", {}, Status.PASSED),
        ("priority = 7", {"priority": 7}, Status.PASSED),
        ("priority = 7", {"priority": 8}, Status.FAILED),
        ("experimental = false", {"experimental": True}, Status.FAILED),
        ("aliases = ['a']", {"aliases": ("b",)}, Status.FAILED),
    ],
)
def test_a_manifest_that_disagrees(plugins, manifest, fields, status):
    text = f'schema = 1\n[[backend]]\nplatform = "one"\n{manifest}\n'.replace("'", '"')
    plugins.package("one", text, **fields)
    assert result("load.manifest_and_record_agree").status is status


def test_a_plugin_that_does_not_say_its_contract(plugins):
    plugins.package("one", 'schema = 1\n[[backend]]\nplatform = "one"\n')
    assert result("load.says_its_contract").status is Status.FAILED


def test_installed_packages_are_read_with_what_their_distribution_brings(plugins):
    folder = plugins.path
    plugins.package("one", extra="import devrt_two, devrt_three")
    (info,) = folder.glob("*.dist-info")
    for name in ("devrt_two", "devrt_three"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    (info / "RECORD").write_text("devrt_two/__init__.py,,\none_pkg/plugin.py,,\n")
    found = imports.installed_findings("one_pkg.plugin", "fake-one")
    backends = [text.rpartition(", ")[2] for text in found if "another backend" in text]
    assert backends == ["devrt_three", "devrt_acme"]  # the plugin's client is made of the example's
