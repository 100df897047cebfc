"""Hardware without a plugin, variables, and libraries."""

import json
import re

import pytest

from devrt._config.layers import Config
from devrt.doctor import CODES, diagnose, seen_hardware
from devrt.doctor.environment import (
    environment_findings,
    read_quietly,
    settings_in_force,
    variables_in_force,
    versions,
)
from devrt.doctor.hardware import hardware_findings
from devrt.plugins.discovery.accelerators import known_hardware
from devrt.plugins.discovery.adopted import adopted_table
from support import shared_library


def put(root, name, text=""):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pci(root, address, vendor, class_code, device=0x1234):
    for name, value in (("vendor", vendor), ("class", class_code), ("device", device)):
        put(root, f"sys/bus/pci/devices/{address}/{name}", f"{value:#x}\n")


# -- hardware -------------------------------------------------------------------------------------


def test_nothing_is_seen_where_nothing_is(tmp_path):
    pci(tmp_path, "0000:00:01.0", 0x8086, 0x060000)
    assert seen_hardware(tmp_path) == ()


CASES = [
    ("cuda", lambda root: pci(root, "0000:3b:00.0", 0x10DE, 0x030200), "PCI 0000:3b:00.0"),
    ("cuda", lambda root: put(root, "dev/nvidia0"), "/dev/nvidia0"),
    ("rocm", lambda root: put(root, "dev/kfd"), "/dev/kfd"),
    ("rocm", lambda root: pci(root, "0000:01:00.0", 0x1002, 0x038000), "PCI 0000:01:00.0"),
    ("tpu", lambda root: pci(root, "0000:00:05.0", 0x1AE0, 0x088000, 0x0063), "(1ae0:0063)"),
    ("tpu", lambda root: put(root, "dev/accel0"), "/dev/accel0"),
    ("cuda", lambda root: put(root, "dev/dxg"), "/dev/dxg"),
]


@pytest.mark.parametrize(("platform", "build", "evidence"), CASES)
def test_hardware_that_is_seen_without_a_plugin(tmp_path, platform, build, evidence):
    build(tmp_path)
    (seen,) = seen_hardware(tmp_path)
    assert platform in seen.platforms
    assert evidence in seen.evidence[0]
    (finding,) = hardware_findings([seen], ["cpu"])
    assert finding.code == "hardware-without-backend"
    assert finding.command.startswith("pip install ")
    assert f"./packages/{seen.wheel}" in finding.command
    assert list(hardware_findings([seen], ["cpu", seen.platforms[-1]])) == []


def test_other_devices_of_the_same_vendors_are_not(tmp_path):
    pci(tmp_path, "0000:00:01.0", 0x10DE, 0x020000)  # a network card
    pci(tmp_path, "0000:00:02.0", 0x1AE0, 0x088000, 0x0042)  # a virtual machine's network card
    put(tmp_path, "dev/vfio/7")
    assert seen_hardware(tmp_path) == ()


def test_the_drivers_version(tmp_path):
    put(tmp_path, "dev/nvidia0")
    put(tmp_path, "proc/driver/nvidia/version", "NVRM version: 580.1\nGCC\n")
    (seen,) = seen_hardware(tmp_path)
    assert seen.driver == "NVRM version: 580.1"


def test_the_table_is_complete():
    for entry in known_hardware():
        assert entry["name"]
        assert entry["platforms"]
        assert entry["wheel"].startswith("devrt-")
        assert entry["paths"]
        assert isinstance(entry["drivers"], list)


# -- variables ------------------------------------------------------------------------------------


def found_in(environ, options=()):
    config = Config(environ)
    read_quietly(config)
    variables = variables_in_force(config, options)
    return variables, list(environment_findings(config, variables, options))


def test_variables_and_what_they_set():
    environ = {
        "DEVRT_PLATFORMS": "cpu",
        "JAX_PLATFORMS": "gpu",
        "CUDA_VISIBLE_DEVICES": "0",
        "HOME": "x",
    }
    variables, findings = found_in(environ)
    assert findings == []
    assert [(v.name, v.option, v.in_force) for v in variables] == [
        ("CUDA_VISIBLE_DEVICES", "", True),
        ("DEVRT_PLATFORMS", "platforms", True),
        ("JAX_PLATFORMS", "platforms", False),
    ]


def test_a_name_of_no_option():
    variables, (finding,) = found_in({"DEVRT_PLATFORM": "cpu"})
    assert (finding.code, finding.subject) == ("env-unknown", "DEVRT_PLATFORM")
    assert "DEVRT_PLATFORM" in finding.remedy
    assert finding.command == "unset DEVRT_PLATFORM"
    assert [variable.option for variable in variables] == [""]


def test_options_of_plugins_count():
    _, findings = found_in({"DEVRT_NUM_PARTS": "3"}, ("num_parts",))
    assert findings == []


def test_a_value_that_an_option_refuses(plugins):
    plugins.add("one", options="(OptionSpec(name='num_parts', type=int, default=1),)")
    with plugins.runtime(DEVRT_NUM_PARTS="many") as runtime:
        runtime.plugins.load(plugins.ref("one"))
        (finding,) = environment_findings(runtime.config, ())
    assert (finding.code, finding.subject) == ("env-malformed", "DEVRT_NUM_PARTS")
    assert "'many'" in finding.message


def test_settings_with_their_origin():
    config = Config({"DEVRT_PLATFORMS": "cpu"})
    config.update("platform_name", "cpu")
    found = {setting["name"]: setting["origin"] for setting in settings_in_force(config)}
    assert found == {"platforms": "environment", "platform_name": "code"}


def test_versions_that_cannot_be_read(monkeypatch):
    from importlib import metadata

    def fail(name):
        raise metadata.PackageNotFoundError(name) if name == "numpy" else OSError("torn")

    monkeypatch.setattr(metadata, "version", fail)
    found = versions()
    assert found["numpy"] == "not installed"
    assert found["devrt-core"] == "unreadable (torn)"


# -- libraries ------------------------------------------------------------------------------------

SOURCES = {
    "table": (
        "static long api[40] = {sizeof api, 0, 24, 0, 0x7500000000};\n"
        "void *GetPjrtApi(void) {return api;}\n"
    ),
    "nothing": "void *GetPjrtApi(void) {return 0;}",
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    for name, source in SOURCES.items():
        shared_library(folder / f"{name}.so", source)
    return folder


def test_a_library_from_the_environment(plugins, libraries, tmp_path):
    from devrt.doctor import diagnose
    from devrt.plugins import discover_plugins
    from devrt.runtime import Runtime

    environ = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"lib:{libraries / 'nothing.so'},worse"}
    found = discover_plugins([str(plugins.path)], environ)
    with Runtime(config=Config(environ), discover=lambda: found) as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    by_code = {finding.code: finding for finding in report.findings}
    assert "worse" in by_code["env-malformed"].message
    assert report.status == 2


def test_a_library_is_described_though_its_devices_are_not_here(libraries, tmp_path):
    from devrt.doctor import diagnose
    from devrt.plugins import PluginRef
    from devrt.plugins.loading.manifest import BackendManifest, Requirement
    from devrt.runtime import Runtime

    ref = PluginRef("lib", "some-wheel", "1.0", library=str(libraries / "table.so"))
    needs = Requirement(reason="no card", remedy="Buy one.", path=("no/such/device",))
    with Runtime(config=Config({}), discover=lambda: (ref,)) as runtime:
        runtime.plugins.manifest = lambda _: BackendManifest(platform="lib", requires=(needs,))
        report = diagnose(runtime=runtime, root=tmp_path)
    (row,) = report.plugins
    assert (row.state, row.reason, row.remedy) == ("unavailable", "no card", "Buy one.")
    assert (row.library, row.version, row.level) == (ref.library, "1.0", "load")
    assert row.facts["pjrt_version"] == [0, 117]
    assert [f.severity for f in report.findings if f.subject == row.name] == ["info"]


# -- the page -------------------------------------------------------------------------------------


def test_the_page_has_every_code_with_its_severity(request):
    page = request.config.rootpath / "docs" / "users" / "doctor.md"
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (error|warning|info) \|", page.read_text(encoding="utf-8"), re.M
    )
    assert dict(rows) == CODES


def test_the_loader_that_a_requested_platform_lacks_is_what_to_install(plugins, tmp_path):
    plugins.add("one")
    remedy = adopted_table().loader_remedy
    plugins.add("lib", probe=f"return Unavailable('no loader', {remedy!r})")
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path, platforms="lib")
        assert (report.status, report.next_command) == (2, "pip install ./packages/devrt-tpu")
        report = diagnose(runtime=runtime, root=tmp_path)
        assert (report.status, report.next_command) == (0, "devrt devices")


def test_a_library_that_is_not_there_is_one_finding(run_python, tmp_path):
    environ = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"zap:{tmp_path / 'absent.so'}"}
    done = run_python("-m", "devrt", "doctor", "--json", **environ)
    found = [f for f in json.loads(done.stdout)["findings"] if f["subject"].startswith("zap@")]
    assert len(found) == 1
    assert "absent.so" in found[0]["message"]
