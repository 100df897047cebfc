"""What a module made for JAX registers and cannot be taken over: nothing is lost in silence."""

import os

import pytest

from devrt.doctor import diagnose
from devrt.plugins.discovery.registered import registered

LIBRARY = "os.path.join(os.path.dirname(__file__), 'pjrt_zap.so')"


def source(*lines):
    body = "".join(f"    {line}\n" for line in lines)
    return f"import os\ndef initialize():\n{body}"


@pytest.mark.parametrize(
    "lines",
    [
        ("from jax.extend import backend",),
        ("import jax.extend.backend as backend",),
        ("import jax", "backend = jax.extend.backend"),
    ],
)
def test_the_documented_function_is_recorded(wheels, lines):
    library = wheels.add(source(*lines, "backend.register_backend_factory('zip', id, priority=3)"))
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library, registered(ref).priority) == ("zip", library, 3)


@pytest.mark.parametrize(
    "call",
    [
        "jax.somewhere.register_plugin('zip', library_path='/zip.so')",
        "jax.somewhere.register_backend_factory('zip', id)",
    ],
)
@pytest.mark.parametrize("is_caught", [False, True])
def test_a_function_that_is_not_known_is_reported(wheels, call, is_caught):
    caught = ("try:", f"    {call}", "except Exception: pass")
    library = wheels.add(source("import jax", *(caught if is_caught else (call,))))
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library) == ("pjrt_plugin_zap", library)
    assert call.partition("(")[0] in registered(ref).failed


def test_an_option_that_is_an_array_is_a_list(wheels):
    options = "{'a': 1, 'r': np.arange(3), 'm': np.zeros((2, 2))}"
    wheels.register(f"'zip', library_path=library, options={options}", "import numpy as np")
    (ref,) = wheels.settled()
    assert registered(ref).options == {"a": 1, "r": [0, 1, 2]}
    assert [text.partition(":")[0] for text in registered(ref).lost] == ["m"]


def test_an_option_that_raises_costs_only_itself(wheels):
    before = "Bad = type('Bad', (), {'tolist': lambda self: 1 / 0})"
    wheels.register("'zip', library_path=library, options={'a': 1, 'b': Bad()}", before)
    (ref,) = wheels.settled()
    assert registered(ref).options == {"a": 1}
    assert registered(ref).lost == ("b: division by zero",)


def test_a_path_that_depends_on_the_folder_is_not_kept(wheels):
    library = wheels.register("'zip', library_path='lib/zip.so'")
    (ref,) = wheels.settled()
    assert (ref.platform, ref.library) == ("zip", library)
    assert "'lib/zip.so', which depends on the current folder" in registered(ref).unknown_library


@pytest.mark.parametrize(
    ("arguments", "after", "message"),
    [
        (
            "'zip', library_path=library",
            "raise OSError('no card')",
            "raised OSError: no card in its initialize(). Platform 'zip' is used as it was",
        ),
        ("'zip', c_api=object()", "pass", "it registers a function table, not a library. The one"),
    ],
)
def test_the_doctor_tells_what_is_not_known(wheels, arguments, after, message):
    wheels.register(arguments, after=after)
    with wheels.runtime() as runtime:
        report = diagnose(runtime=runtime, root=wheels.path)
    (found,) = [f for f in report.findings if f.code == "plugin-not-recorded"]
    assert message in found.message
    assert found.severity == "warning"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def initialize():\n    raise RuntimeError('bad driver')\n", "RuntimeError: bad driver"),
        ("def initialize():\n    {}['zap']\n", "KeyError: 'zap'"),
        ("{}['zap']\n", "KeyError: 'zap' while it was imported"),
        ("def initialize():\n    raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_any_exception_before_a_registration_keeps_the_guess(wheels, text, message):
    wheels.add(text)
    with wheels.runtime() as runtime:
        report = diagnose(runtime=runtime, root=wheels.path)
        (ref,) = runtime.plugins.refs()
    assert ref.platform == "pjrt_plugin_zap"
    assert message in registered(ref).failed
    assert "plugin-not-recorded" in [finding.code for finding in report.findings]


def test_an_initialize_that_returns_and_registers_nothing_is_no_error(wheels):
    wheels.add("def initialize():\n    return None\n")
    with wheels.runtime() as runtime:
        report = diagnose(runtime=runtime, root=wheels.path)
        (ref,) = runtime.plugins.refs()
    assert ref.is_empty
    assert "plugin-not-recorded" not in [finding.code for finding in report.findings]


def test_a_file_beside_the_script_makes_no_other_verdict(wheels, runs, monkeypatch, tmp_path):
    script = tmp_path / "script"
    script.mkdir()
    monkeypatch.syspath_prepend(str(script))
    wheels.register(before="raise OSError('no card')")
    wheels.settled()
    (script / "written.txt").write_text("")
    (script / "written.py").write_text("")
    wheels.settled()
    assert len(runs) == 1
    os.mkdir(script / "more-1.0.dist-info")
    wheels.settled()
    assert len(runs) == 2


def test_another_version_of_jax_makes_another_verdict(wheels, runs):
    before = "import jax; assert jax.__version_info__ == (0, 9, 1), jax.__version__"
    wheels.register(before=before)
    assert wheels.settled()[0].platform == "pjrt_plugin_zap"
    info = wheels.path / "jax-0.9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: jax\nVersion: 0.9.1\n")
    assert registered(wheels.settled()[0]).failed == ""
    wheels.settled()
    assert len(runs) == 2
    info = info.rename(wheels.path / "jax-0.9.2.dist-info")
    (info / "METADATA").write_text("Name: jax\nVersion: 0.9.2\n")
    assert wheels.settled()[0].platform == "pjrt_plugin_zap"
