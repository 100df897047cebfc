"""Every source of plugins: what is found, in which order, and that nothing of it is run."""

import gc
import json
import sys

import pytest

from devrt.plugins import PluginRegistry, discover_plugins, installed_plugins
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.loading.manifest_file import read_manifest
from devrt.records import Unavailable

RAISES = "raise AssertionError('imported')"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on ``sys.path`` to write distributions into."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(folder, *files, text=RAISES):
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if path.suffix == ".py" else "")


@pytest.fixture
def install(site, write_distribution):
    """Return a function that installs a distribution with files, as its RECORD says."""

    def install(name, *files, points="", version="1.0", folder=site):
        info = write_distribution(folder, name, points, version=version)
        write(folder, *files)
        (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
        return info

    return install


def found(*folders):
    return [
        (ref.source, ref.platform, ref.distribution)
        for ref in installed_plugins([str(folder) for folder in folders])
    ]


# -- the namespace package ------------------------------------------------------------------------


def test_each_module_of_the_namespace_package_is_a_plugin(site):
    write(site, "devrt_plugins/One.py", "devrt_plugins/two/__init__.py", "devrt_plugins/_x.py")
    write(site, "devrt_plugins/three.abi3.so", "devrt_plugins/data/x.txt", "devrt_plugins/a-b.py")
    refs = installed_plugins([str(site)])
    assert [(ref.platform, ref.module) for ref in refs] == [
        ("one", "devrt_plugins.One"),
        ("three", "devrt_plugins.three"),
        ("two", "devrt_plugins.two"),
    ]
    assert {ref.source for ref in refs} == {"namespace package (devrt_plugins)"}
    assert {str(ref) for ref in refs} == {f"{ref.module} (a namespace package)" for ref in refs}
    assert {ref.distribution for ref in refs} == {"(namespace)"}


def test_a_module_of_the_namespace_belongs_to_the_distribution_that_lists_it(install, site):
    install("other", "other/x.py")
    install("My-Acme", "devrt_plugins/acme2/__init__.py", version="2.0")
    (ref,) = installed_plugins([str(site)])
    assert (ref.name, ref.version) == ("acme2@My-Acme", "2.0")


def test_a_module_that_an_entry_point_names_is_listed_once(install, site):
    install("a", "devrt_plugins/x.py", points="[devrt_plugins]\nacme2 = devrt_plugins.x\n")
    assert found(site) == [("entry point (devrt_plugins)", "acme2", "a")]


def test_the_namespace_spans_folders_and_the_earlier_module_counts(tmp_path):
    write(tmp_path / "1", "devrt_plugins/a.py", "devrt_plugins/b.py")
    write(tmp_path / "2", "devrt_plugins/b.py", "devrt_plugins/c.py")
    platforms = [platform for _, platform, _ in found(tmp_path / "1", tmp_path / "2")]
    assert platforms == ["a", "b", "c"]


def test_a_regular_package_hides_the_other_portions(tmp_path):
    write(tmp_path / "1", "devrt_plugins/a.py")
    write(tmp_path / "2", "devrt_plugins/__init__.py", "devrt_plugins/b.py")
    assert [platform for _, platform, _ in found(tmp_path / "1", tmp_path / "2")] == ["b"]


def test_a_plugin_of_the_namespace_is_loaded_as_any_other(plugins):
    folder = plugins.path / "devrt_plugins"
    folder.mkdir()
    plugins.add("elsewhere", "x = 1")
    source = (plugins.path / plugins.add("acme2")).with_suffix(".py").read_text()
    (plugins.path / "fake_acme2-1.0.dist-info" / "entry_points.txt").write_text("")
    (folder / "acme2.py").write_text(source)
    with plugins.runtime() as runtime:
        assert runtime.get_backend("acme2").platform == "acme2"
        assert runtime.decide().chosen.ref.source == "namespace package (devrt_plugins)"
    for name in ("devrt_plugins", "devrt_plugins.acme2"):
        sys.modules.pop(name, None)


# -- plugins that were made for JAX or XLA --------------------------------------------------------


@pytest.mark.parametrize("group", ["jax_plugins", "xla_plugins"])
def test_the_library_of_an_adopted_plugin_is_found_among_its_files(install, site, group):
    files = [f"{group}/zap/{name}" for name in ("__init__.py", "a.so", "pjrt_zap.so")]
    install("Zap-Pjrt", *files, points=f"[{group}]\nZap = {group}.zap\n", version="3.1")
    (ref,) = installed_plugins([str(site)])
    assert (ref.platform, ref.distribution, ref.version, ref.module) == (
        "zap",
        "Zap-Pjrt",
        "3.1",
        "",
    )
    assert ref.source == f"entry point ({group})"
    assert ref.library == str(site / group / "zap" / "pjrt_zap.so")
    assert ref.problem == ""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["b_plugin.so", "a_pjrt_x.so"], "a_pjrt_x.so"),
        (["b_plugin.so", "xla_b_plugin.so"], "xla_b_plugin.so"),
        (["libb.so", "b_plugin.so"], "b_plugin.so"),
        (["z_pjrt.so", "a_pjrt.so"], "a_pjrt.so"),
    ],
)
def test_of_several_libraries_the_most_telling_name_counts(install, site, names, expected):
    files = [f"zap/{name}" for name in ("__init__.py", *names)]
    install("zap", *files, points="[jax_plugins]\nzap = zap\n")
    (ref,) = installed_plugins([str(site)])
    assert ref.library == str(site / "zap" / expected)


def test_without_a_list_of_files_the_packages_folder_is_searched(install, tmp_path, site):
    write(tmp_path / "source", "zap/__init__.py", "zap/lib/deep/pjrt_zap.so")
    (install("zap", points="[jax_plugins]\nzap = zap\n") / "RECORD").unlink()
    (ref,) = installed_plugins([str(site), str(tmp_path / "source")])
    assert ref.library == str(tmp_path / "source/zap/lib/deep/pjrt_zap.so")


def test_a_library_that_was_listed_and_is_gone_is_not_taken(install, site):
    install("zap", "zap/__init__.py", "zap/pjrt_1.so", points="[jax_plugins]\nzap = zap\n")
    (site / "zap/pjrt_1.so").unlink()
    (ref,) = installed_plugins([str(site)])
    assert (ref.platform, ref.library) == ("zap", "")
    assert "no PJRT library was found among the files of zap" in ref.problem
    (candidate,) = PluginRegistry(lambda: [ref]).candidates()
    assert candidate.state.phase == "discovery"
    assert "*pjrt*.so" in candidate.state.reason


def test_the_jax_namespace_without_entry_points(install, site):
    install("owner", "jax_plugins/zap/__init__.py", "jax_plugins/zap/pjrt_zap.so", version="4")
    write(site, "jax_plugins/stray/__init__.py", "jax_plugins/stray/stray_plugin.so")
    source = "namespace package (jax_plugins)"
    assert found(site) == [(source, "stray", "(namespace)"), (source, "zap", "owner")]
    assert all(ref.library.endswith(".so") for ref in installed_plugins([str(site)]))


def test_a_plugin_advertised_to_both_groups_is_listed_once(install, site):
    points = "[xla_plugins]\nzap = zap\n[jax_plugins]\nzap = zap\n"
    install("zap", "zap/__init__.py", "zap/pjrt_zap.so", points=points)
    assert found(site) == [("entry point (jax_plugins)", "zap", "zap")]


def test_a_distribution_that_speaks_to_devrt_is_not_adopted_too(install, site):
    points = "[devrt_plugins]\nzap = zap\n[jax_plugins]\nzap = zap\n"
    install("zap", "zap/__init__.py", "zap/pjrt_zap.so", points=points)
    assert found(site) == [("entry point (devrt_plugins)", "zap", "zap")]


def test_a_distribution_of_the_table(install, site):
    table = adopted_table()
    name = next(n for n, row in table.rows.items() if "library" in row)
    row = table.rows[name]
    install(name, row["library"], version="0.1")
    (ref,) = installed_plugins([str(site)])
    assert (ref.platform, ref.distribution, ref.version) == (row["platform"], name, "0.1")
    assert (ref.library, ref.source) == (str(site / row["library"]), "table of known distributions")
    (site / row["library"]).unlink()
    assert installed_plugins([str(site)]) == ()


def test_the_table_names_the_platform_of_an_entry_point(install, site):
    name, row = next((n, r) for n, r in adopted_table().rows.items() if r.get("aliases"))
    install(name, "x/__init__.py", "x/xla_x_plugin.so", points="[jax_plugins]\nother = x\n")
    (ref,) = installed_plugins([str(site)])
    assert ref.platform == row["platform"]
    manifest = read_manifest(ref)
    assert (manifest.priority, manifest.aliases) == (row["priority"], tuple(row["aliases"]))
    registry = PluginRegistry(lambda: [ref])
    assert registry.aliases(ref) == manifest.aliases
    assert registry.load(ref).client_factory().priority == row["priority"]


def test_the_table_is_valid_and_its_backends_come_after_devrts_own(tmp_path):
    table = adopted_table()
    for name in table.rows:
        ref = installed_ref(name)
        manifest = read_manifest(ref)
        assert manifest.priority < 200
        assert all("/" in path for requirement in manifest.requires for path in requirement.path)
        assert table.backend(name).keys().isdisjoint({"distributions", "library"})


def installed_ref(name):
    from devrt.plugins import PluginRef

    return PluginRef("x", name, library="/x.so")


def test_an_adopted_plugin_that_no_table_knows_has_a_priority_below_devrts_own(install, site):
    install("zap", "zap/__init__.py", "zap/pjrt_zap.so", points="[jax_plugins]\nzap = zap\n")
    (candidate,) = PluginRegistry(lambda: installed_plugins([str(site)])).candidates()
    assert (candidate.priority, candidate.experimental) == (100, False)
    assert isinstance(candidate.state, Unavailable)
    assert candidate.state.reason == "no installed plugin can load PJRT libraries"
    assert candidate.state.remedy == adopted_table().loader_remedy


def test_one_platform_of_two_sources_has_two_candidates_in_order_of_priority(plugins, install):
    (plugins.path / "zap").mkdir()
    plugins.add("zap", priority=200)
    install(
        "zap-pjrt",
        "zap/__init__.py",
        "zap/pjrt_zap.so",
        points="[jax_plugins]\nzap = zap\n",
        folder=plugins.path,
    )
    with plugins.runtime() as runtime:
        names = [v.candidate.ref.name for v in runtime.decide("zap").verdicts]
        assert names == ["zap@fake-zap", "zap@zap-pjrt"]
        assert runtime.get_backend("zap").platform == "zap"


# -- all of them ----------------------------------------------------------------------------------


def everything(install, site, tmp_path):
    install("own", points="[devrt_plugins]\nz = own_z\n")
    write(site, "devrt_plugins/y.py", "own_z.py")
    install("jp", "jp/__init__.py", "jp/pjrt_a.so", points="[jax_plugins]\nd = jp\n")
    install("xp", "xp/__init__.py", "xp/pjrt_a.so", points="[xla_plugins]\nc = xp\n")
    write(site, "jax_plugins/b/__init__.py", "jax_plugins/b/pjrt_b.so")
    name = next(n for n, row in adopted_table().rows.items() if "library" in row)
    install(name, adopted_table().rows[name]["library"])
    (tmp_path / "x.json").write_text(json.dumps({"library_path": "/x.so"}))
    return {"PJRT_NAMES_AND_LIBRARY_PATHS": f"x:{tmp_path / 'x.json'}"}


def test_the_sources_are_reported_in_their_order(install, site, tmp_path):
    environ = everything(install, site, tmp_path)
    refs = discover_plugins([str(site)], environ)
    assert [ref.source for ref in refs] == [
        "entry point (devrt_plugins)",
        "namespace package (devrt_plugins)",
        "environment (PJRT_NAMES_AND_LIBRARY_PATHS)",
        "entry point (jax_plugins)",
        "entry point (xla_plugins)",
        "namespace package (jax_plugins)",
        "table of known distributions",
    ]
    assert PluginRegistry(lambda: reversed(refs)).refs() == refs


AUDIT = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append((event, *args[:1]))
                 if event in ("import", "ctypes.dlopen") else None)
import devrt.plugins.discovery.installed, devrt.plugins.discovery.pjrt_env, tomllib, json, fnmatch
seen.clear()
before = set(sys.modules)
refs = devrt.plugins.discover_plugins()
print(len([ref for ref in refs if str(ref.library or ref.module)]))
print(sorted(str(e) for e in seen if e[1] not in before), sorted(set(sys.modules) - before))
"""


def test_listing_every_source_imports_and_opens_nothing(install, site, tmp_path, run_python):
    environ = everything(install, site, tmp_path)
    result = run_python("-S", "-c", AUDIT, path=[*sys.path, site], **environ)
    assert result.returncode == 0, result.stderr
    count, events = result.stdout.splitlines()
    assert int(count) >= 7
    assert events == "[] []"


def test_a_folder_of_the_path_is_listed_once(install, site, tmp_path, monkeypatch):
    import os

    everything(install, site, tmp_path)
    listed = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    installed_plugins([str(site)])
    assert listed.count(str(site)) == 1
    assert len(listed) == len(set(listed))


def test_the_work_grows_with_the_number_of_plugins_and_no_faster(tmp_path, write_distribution):
    def calls(count):
        folder = tmp_path / str(count)
        for number in range(count):
            write_distribution(folder, f"d{number}", f"[devrt_plugins]\np{number} = m{number}\n")
        total = [0]

        def trace(frame, event, arg):
            total[0] += event in ("call", "c_call")

        gc.collect()
        gc.disable()  # what other tests left over would be finalised, and counted
        sys.setprofile(trace)
        try:
            assert len(installed_plugins([str(folder)])) == count
        finally:
            sys.setprofile(None)
            gc.enable()
        return total[0]

    calls(1)
    base, small, large = calls(2), calls(52), calls(102)
    assert (large - small) < 1.3 * (small - base)


FIFTY = """
import sys
run, opened = [], []
def hook(event, args):
    if event == "exec":
        run.append(getattr(args[0], "co_filename", ""))
    elif event == "ctypes.dlopen" or event == "import" and args[1]:
        opened.append(str(args))
sys.addaudithook(hook)
import devrt
assert devrt.devices("p7")[0].client is devrt.get_backend()
print(sorted(name.rpartition("/")[2] for name in run if "fake_p" in name or "zap" in name))
print([what for what in opened if "zap" in what])
print(len(devrt.default_runtime().plugins.refs()) >= 51)
"""


def test_of_fifty_plugins_one_is_imported_and_no_library_is_opened(plugins, install, run_python):
    for number in range(50):
        plugins.add(f"p{number}")
    install(
        "zap",
        "zap/__init__.py",
        "zap/libs/pjrt_zap.so",
        points="[jax_plugins]\nzap = zap\n",
        folder=plugins.path,
    )
    environ = {"DEVRT_PLATFORMS": "p7", "PJRT_NAMES_AND_LIBRARY_PATHS": "y:/libs/zap.so"}
    result = run_python("-c", FIFTY, path=[plugins.path], **environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["['fake_p7_plugin.py']", "[]", "True"]


class Foreign:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("fake_"):
            raise RuntimeError("not mine")


def test_a_foreign_finder_that_fails_hides_no_plugin(plugins, monkeypatch):
    plugins.add("one")
    monkeypatch.setattr(sys, "meta_path", [Foreign(), *sys.meta_path])
    registry = PluginRegistry(plugins.refs)
    assert registry.manifest(plugins.ref("one")) is None
