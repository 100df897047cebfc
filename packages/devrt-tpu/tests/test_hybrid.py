"""A PJRT library behind a plugin of its own, as the page for backend authors has it."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from devrt.doctor import diagnose
from devrt.errors import (
    BackendInitializationError,
    BackendUnavailableError,
    ConfigError,
    DevrtWarning,
    SelectionError,
)
from devrt.runtime import Runtime
from support import double, xla_cpu_library

PAGE = Path(__file__).parents[3] / "docs/backend-authors/pjrt-libraries.md"
BLOCK = r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$"
FILES = dict(re.findall(BLOCK, PAGE.read_text(encoding="utf-8"), re.M | re.S))
PLUGIN, MANIFEST = FILES["acme_pjrt/plugin.py"], FILES["acme_pjrt/devrt.toml"]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs the page's wheel, with the CPU's library for its own."""

    def install(source=PLUGIN, manifest=MANIFEST, library=True):
        package = tmp_path / "acme_pjrt"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "plugin.py").write_text(source)
        (package / "devrt.toml").write_text(manifest)
        if library:
            (package / "libacme_pjrt.so").symlink_to(xla_cpu_library())
        info = tmp_path / "acme_pjrt-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pjrt\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[devrt_plugins]\nacme = acme_pjrt.plugin\n")
        (tmp_path / "acme0").touch()
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("ACME_DEVICE", str(tmp_path / "acme0"))
        for name in [name for name in sys.modules if name.partition(".")[0] == "acme_pjrt"]:
            monkeypatch.delitem(sys.modules, name)
        return tmp_path

    return install


def acme(**environ):
    return Runtime(environ={"DEVRT_PLATFORMS": "acme@acme-pjrt", **environ})


@pytest.mark.engine
def test_the_page_plugin_makes_clients_programs_and_memories(install):
    install()
    with acme(DEVRT_ACME_CORES="3") as runtime:
        client = runtime.get_backend()
        assert (client.platform, client.device_count()) == ("acme", 3)
        (verdict,) = runtime.decide().verdicts
        assert verdict.candidate.priority == 50
        program = client.compile_and_load(double())
        (out,) = program.execute([client.buffer_from_pyval(np.ones(8, np.float32))])
        np.testing.assert_array_equal(np.asarray(out), np.full(8, 2, np.float32))
        memories = {m.kind: m for m in client.devices()[0].addressable_memories()}
        assert memories["unpinned_host"].is_host_visible
        assert not memories["device"].is_host_visible
        with pytest.raises(ConfigError, match="acme_cores"):
            runtime.config.update("acme_cores", 0)


@pytest.mark.engine
def test_the_loaders_own_options_come_to_the_records(install, tmp_path):
    install()
    with acme(DEVRT_COMPILATION_CACHE_DIR=str(tmp_path / "kept")) as runtime:
        runtime.get_backend().compile_and_load(double())
    assert any((tmp_path / "kept").rglob("*"))


def test_the_plugins_own_probe_is_called_first(install):
    (install() / "acme0").unlink()
    with acme() as runtime, pytest.raises(SelectionError, match="modprobe acme"):
        runtime.get_backend()


def test_a_library_that_is_not_there(install):
    install(library=False)
    with acme() as runtime, pytest.raises(SelectionError, match=r"libacme_pjrt\.so' is not there"):
        runtime.get_backend()


def test_the_library_may_say_why_it_is_not_there(install):
    source = PLUGIN.replace("library=LIBRARY", "library=lambda: Unavailable('no SDK', 'Get it.')")
    install(source)
    with acme() as runtime:
        with pytest.raises(SelectionError, match=r"no SDK"):
            runtime.get_backend()
        with pytest.raises(BackendUnavailableError, match=r"no SDK\. Get it\."):
            _topology(runtime)


def _topology(runtime):
    ((_, record),) = runtime.plugins.topologies("acme")
    return record.factory("")


def test_a_library_that_is_no_path(install):
    install(PLUGIN.replace("library=LIBRARY", "library=lambda: 7"))
    with acme() as runtime, pytest.raises(SelectionError, match="returned int, not a path"):
        runtime.get_backend()


@pytest.mark.parametrize(
    ("fields", "words"), [("factory=print, library=LIBRARY", "both"), ("probe=probe", "neither")]
)
def test_a_record_has_a_factory_or_a_library(install, fields, words):
    install(re.sub(r"ClientFactory\(library.*\)", f"ClientFactory({fields})", PLUGIN))
    with acme() as runtime, pytest.raises(SelectionError, match=f"or a library, and has {words}"):
        runtime.get_backend()


@pytest.mark.engine
def test_options_that_the_library_refuses_name_the_platform(install):
    install(PLUGIN.replace('options["acme_cores"]}', "object()}"))
    words = "options of platform 'acme'"
    with acme() as runtime, pytest.raises(BackendInitializationError, match=words):
        runtime.get_backend()


@pytest.mark.engine
def test_without_create_options_those_that_are_set_go_by_their_names(install):
    source = PLUGIN.replace(", create_options=create_options", "")
    source = source.replace('"acme_cores", type=int, default=2', '"cpu_device_count", type=int')
    install(source)
    with acme() as runtime:
        usual = runtime.get_backend().device_count()  # the library's own choice
    with acme(DEVRT_CPU_DEVICE_COUNT=str(usual + 1)) as runtime:
        assert runtime.get_backend().device_count() == usual + 1


@pytest.mark.engine
def test_a_memory_kind_that_the_library_lacks(install):
    install(PLUGIN.replace('kind="unpinned_host"', 'kind="acme_fast"'))
    with acme() as runtime:
        with pytest.warns(DevrtWarning, match="'acme_fast' .* is left out"):
            client = runtime.get_backend()
        assert "acme_fast" not in [m.kind for m in client.devices()[0].addressable_memories()]


@pytest.mark.engine
def test_the_doctor_examines_it_in_a_child(install):
    install()
    with acme() as runtime:
        report = diagnose(level="client", platforms=("acme@acme-pjrt",), runtime=runtime)
    (entry,) = (e for e in report.plugins if e.distribution == "acme-pjrt")
    assert (entry.outcome, entry.facts["device_count"]) == ("ok", 2)
    assert any(f.code == "acme-pjrt/slow-link" for f in report.findings)
