"""Libraries that declare that the others shall see their symbols, and those that do not."""

import json
import textwrap

import pytest

from support import python

CHILD = """
import ctypes, json, os, sys
import devrt
from devrt import errors
from devrt.runtime import register_plugin
FAKE = os.environ["FAKE"]
def is_visible():
    return hasattr(ctypes.CDLL(None), "fake_counts")  # dlsym(RTLD_DEFAULT, ...)
"""


@pytest.fixture
def run(fake, tmp_path):
    """Return a function that runs code in a child and returns what it printed."""

    def run(code, **env):
        env = {"FAKE": fake, "DEVRT_CACHE_DIR": tmp_path / "cache"} | env
        done = python(CHILD + textwrap.dedent(code), clean=("DEVRT_", "PJRT_"), **env)
        return done.stdout.splitlines()

    return run


@pytest.fixture
def config(fake, tmp_path):
    """Return a function that writes a configuration file and returns the variable's value."""

    def write(name="zap", **keys):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"library_path": fake, **keys}))
        return f"{name}:{path}"

    return write


@pytest.mark.parametrize("declared", [False, True])
def test_only_a_library_that_is_registered_so_shows_its_symbols(run, declared):
    code = f"""
    register_plugin("zap", library_path=FAKE, global_symbols={declared})
    print(is_visible())
    devrt.devices("zap")
    import devrt_pjrt as pjrt
    print(is_visible(), pjrt.loaded_library("zap").is_global)
    """
    assert run(code) == ["False", f"{declared} {declared}"]


@pytest.mark.parametrize("declared", [{}, {"global_symbols": False}, {"global_symbols": True}])
def test_a_configuration_file_declares_it(run, config, declared):
    code = 'devrt.devices("zap")\nprint(is_visible())'
    output = run(code, PJRT_NAMES_AND_LIBRARY_PATHS=config(**declared))
    assert output == [str(declared.get("global_symbols", False))]


def test_a_configuration_file_with_another_value_is_refused(run, config):
    code = """
    try: devrt.devices("zap")
    except errors.DevrtError as error: print(error)
    print(is_visible())
    """
    output = run(code, PJRT_NAMES_AND_LIBRARY_PATHS=config(global_symbols="yes"))
    assert "global_symbols must be true or false, not 'yes'" in "\n".join(output)
    assert output[-1] == "False"


def test_a_topology_opens_it_so_too(run):
    code = """
    register_plugin("zap", library_path=FAKE, global_symbols=True)
    from devrt.runtime import make_pjrt_topology
    try: make_pjrt_topology("zap")
    except errors.DevrtError: pass
    print(is_visible())
    """
    assert run(code) == ["True"]


def test_a_library_that_is_open_already_shows_them_from_then_on(run):
    code = """
    import devrt_pjrt as pjrt
    first = pjrt.library_for("one", FAKE)
    print(is_visible(), first.is_global)
    again = pjrt.library_for("two", FAKE, global_symbols=True)
    print(is_visible(), first.is_global, again is first)
    pjrt.library_for("two", FAKE)
    print(again.is_global)
    """
    assert run(code) == ["False False", "True True True", "True"]


def test_a_capsule_cannot_be_registered_so(run):
    code = """
    import devrt_pjrt as pjrt
    capsule = pjrt.load_pjrt_plugin_dynamically("zap", FAKE)
    try: register_plugin("zap", c_api=capsule, global_symbols=True)
    except errors.InvalidArgumentError as error: print(error)
    """
    assert "global_symbols is for a library_path" in run(code)[0]


def test_doctor_and_explain_list_them(run, config):
    code = """
    from devrt.doctor import diagnose, explain
    print(explain("zap").global_symbols, explain("other").global_symbols)
    print("global symbols" in str(explain("zap")), "global symbols" in str(explain("other")))
    report = diagnose(platforms=["zap", "other"])
    rows = {row.platform: row.facts.get("global_symbols") for row in report.plugins}
    print(rows["zap"], rows["other"])
    print([f.subject for f in report.findings if f.code == "library-opened-globally"])
    print([f.subject for f in report.findings if f.code == "libraries-share-symbols"])
    """
    named = f"{config(global_symbols=True)},{config('other')}"
    assert run(code, PJRT_NAMES_AND_LIBRARY_PATHS=named) == [
        "('zap@(environment)',) ()",
        "True False",
        "True None",
        "['zap@(environment)']",
        "[]",
    ]
    both = f"{config(global_symbols=True)},{config('other', global_symbols=True)}"
    output = run(code, PJRT_NAMES_AND_LIBRARY_PATHS=both)
    assert output[-1] == "['plugins']"
    assert output[-2] == "['other@(environment)', 'zap@(environment)']"


MANIFEST = 'schema = 1\n[[backend]]\nplatform = "zap"\npriority = 400\n{}'
MODULE = """
import os
from devrt.runtime import register_plugin
def initialize():
    register_plugin("zap", library_path=os.environ["FAKE"], global_symbols={})
"""


@pytest.mark.parametrize(
    ("manifest", "call", "message"),
    [
        ("global_symbols = true", True, "True True"),
        ("", False, "False False"),
        ("global_symbols = true", False, "True True"),
        ("", True, "its manifest says global_symbols = False and its record True"),
    ],
)
def test_a_manifest_counts_beside_the_call_that_registers(run, tmp_path, manifest, call, message):
    package = tmp_path / "site" / "devrt_plugins" / "zap"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MODULE.format(call))
    (package / "devrt.toml").write_text(MANIFEST.format(manifest))
    code = """
    try:
        devrt.devices("zap")
        from devrt.doctor import explain
        print(is_visible(), bool(explain("zap").global_symbols))
    except errors.DevrtError as error: print(error)
    """
    assert message in "\n".join(run(code, PYTHONPATH=str(tmp_path / "site")))
