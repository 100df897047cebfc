"""Where plugin code failed: the cause here, the traceback of a child, and words that fit."""

import traceback

import pytest

from devrt.doctor import diagnose
from devrt.errors import BackendUnavailableError

HOOK = """
from devrt.hookspecs import hookimpl

@hookimpl
def devrt_client_factories():
    return {}["lost"]
"""
FAILING = {
    "import": {"source": "{}['lost']"},
    "hook": {"source": HOOK},
    "initialize": {"source": "def initialize():\n    {}['lost']\n"},
    "probe": {"probe": "return {{}}['lost']".replace("{{}}", "{}")},
}


@pytest.mark.parametrize("place", FAILING)
def test_the_cause_is_kept_with_its_traceback(plugins, place):
    module = plugins.add("one", **FAILING[place])
    with plugins.runtime() as runtime, pytest.raises(BackendUnavailableError) as raised:
        runtime.get_backend("one")
    assert isinstance(raised.value.__cause__, KeyError)
    frames = traceback.extract_tb(raised.value.__cause__.__traceback__)
    assert frames[-1].filename.endswith(f"{module}.py")
    assert "cannot be used, because its plugin fails" in raised.value.message


@pytest.mark.parametrize("place", FAILING)
def test_the_report_has_the_end_of_the_childs_traceback(plugins, place, tmp_path):
    module = plugins.add("one", **FAILING[place])
    with plugins.runtime() as runtime:
        (row,) = diagnose(runtime=runtime, root=tmp_path).plugins
    assert f"{module}.py" in row.output
    assert row.output.splitlines()[-1] == "KeyError: 'lost'"


def test_an_initialize_that_raises_is_not_called_a_hook(plugins):
    plugins.add("one", **FAILING["initialize"])
    with plugins.runtime() as runtime, pytest.raises(BackendUnavailableError) as raised:
        runtime.get_backend("one")
    assert "failed while the initialize() of its module" in raised.value.message
    assert "hooks" not in raised.value.message


def test_a_crash_of_a_module_made_for_jax_is_reported_where_no_library_is_found(wheels):
    library = wheels.add("import ctypes\ndef initialize():\n    ctypes.string_at(0)\n")
    (wheels.path / library).unlink()
    with wheels.runtime() as runtime:
        with pytest.raises(BackendUnavailableError, match="SIGSEGV"):
            runtime.get_backend("pjrt_plugin_zap")
        report = diagnose(runtime=runtime, root=wheels.path)
    (row,) = report.plugins
    assert "SIGSEGV" in row.reason
    assert "Correct the entry" not in row.remedy
    assert "zap-wheel" in row.remedy


def test_a_relative_library_is_reported_to_need_its_full_path(plugins):
    call = "register_plugin('one', library_path='acme/pjrt_acme.so')"
    source = f"from devrt.runtime import register_plugin\ndef initialize():\n    {call}\n"
    plugins.add("one", source)
    with plugins.runtime() as runtime, pytest.raises(BackendUnavailableError) as raised:
        runtime.get_backend("one")
    assert "it must be absolute" in raised.value.message
