"""Plugins as real distributions in a folder of the test's own, and runtimes that know only them."""

import dataclasses
import importlib
import os
import sys
import textwrap
import warnings

import pytest

import support
from devrt._config.layers import Config
from devrt.errors import DiscoveryWarning
from devrt.plugins import Callbacks, PluginRegistry, installed_plugins
from devrt.probing import entries
from devrt.runtime import Runtime, notices, set_default_runtime

# No test depends on how fast the machine is.

BODY = """
from devrt.hookspecs import hookimpl
from devrt.records import (
    Available, ClientFactory, MemoryKind, OptionSpec, TopologyFactory, Unavailable
)

contexts = []

def make_client(context):
    contexts.append(context)
    from devrt_acme.client import AcmeClient as Acme
    AcmeClient = type("FakeClient", (Acme,), {{"platform": {platform!r}}})
    {make}

def probe():
    {probe}

@hookimpl
def devrt_client_factories():
    return [
        ClientFactory(
            platform={platform!r}, factory=make_client, probe=probe, options={options}, {fields}
        )
    ]
"""


def body(
    platform, *, make=None, probe="return Available('simulated')", options="()", extra="", **fields
):
    """Return the source of a plugin module that serves ``platform``; ``options`` is source too."""
    make = make or "return AcmeClient(2)"
    arguments = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    source = BODY.format(
        platform=platform, make=make, probe=probe, options=options, fields=arguments
    )
    return source + textwrap.dedent(extra)


def write_distribution(folder, name, entry_points, *, version="1.0", kind="dist-info"):
    """Write the metadata of a distribution, as an installer does."""
    info = folder / f"{name.replace('-', '_')}-{version}.{kind}"
    info.mkdir(parents=True)
    metadata = "METADATA" if kind == "dist-info" else "PKG-INFO"
    (info / metadata).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    return info


@pytest.fixture(scope="session", name="write_distribution")
def _write_distribution():
    return write_distribution


@dataclasses.dataclass
class PluginFolder:
    """A folder on ``sys.path`` with distributions in it."""

    path: object

    def add(self, platform, source=None, *, distribution=None, version="1.0", **options):
        """Install a plugin: a distribution with an entry point, and the module that it names."""
        distribution = distribution or f"fake-{platform}"
        module = f"{distribution.replace('-', '_').lower()}_plugin"
        source = body(platform, **options) if source is None else textwrap.dedent(source)
        (self.path / f"{module}.py").write_text(source, encoding="utf-8")
        write_distribution(
            self.path, distribution, f"[devrt_plugins]\n{platform} = {module}\n", version=version
        )
        importlib.invalidate_caches()
        return module

    def package(self, platform, manifest="", source=None, *, distribution=None, **options):
        """Install a plugin as a package: its module ``plugin``, and a manifest beside it."""
        folder = self.path / f"{platform}_pkg"
        folder.mkdir()
        source = body(platform, **options) if source is None else textwrap.dedent(source)
        (folder / "__init__.py").write_text("")
        (folder / "plugin.py").write_text(source, encoding="utf-8")
        if manifest:
            text = manifest if isinstance(manifest, bytes) else manifest.encode()
            (folder / "devrt.toml").write_bytes(text)
        points = f"[devrt_plugins]\n{platform} = {platform}_pkg.plugin\n"
        write_distribution(self.path, distribution or f"fake-{platform}", points)
        importlib.invalidate_caches()
        return f"{platform}_pkg.plugin"

    def refs(self):
        return installed_plugins([str(self.path)])

    def ref(self, platform):
        (ref,) = [ref for ref in self.refs() if ref.platform == platform]
        return ref

    def runtime(self, **environ):
        """Return a runtime that knows this folder's plugins and these environment variables."""
        return Runtime(config=Config(environ), discover=self.refs)


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """An empty folder for plugins; what was imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield PluginFolder(folder)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def machine(tmp_path_factory, monkeypatch):
    """A machine without any accelerator, whatever the real one has; its files' root."""
    root = tmp_path_factory.mktemp("machine")
    monkeypatch.setattr(notices, "_ROOT", str(root))
    return root


@pytest.fixture
def reported():
    """Return what a runtime warns of at its first use, and check that nothing is reported twice."""

    def ask(runtime, platform=None):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            runtime.get_backend(platform)
            count = len(caught)
            runtime.get_backend(platform)
            runtime.clear_backends()
            runtime.get_backend(platform)
        assert len(caught) == count
        assert {w.category for w in caught} <= {DiscoveryWarning}
        return [str(w.message) for w in caught]

    return ask


@pytest.fixture
def as_default():
    """Make a runtime the default one until the test ends, then close it."""
    made = []

    def install(runtime):
        former = set_default_runtime(runtime)
        made.append((runtime, former))
        return runtime

    yield install
    for runtime, former in reversed(made):
        set_default_runtime(former)
        runtime.close()


@pytest.fixture
def run_python():
    """Run a fresh interpreter with an environment that says nothing of devrt but ``environ``."""

    def run(*arguments, path=(), **environ):
        path = os.pathsep.join(map(str, path))
        environ = {"PYTHONPATH": path, "PYTHONWARNINGS": "default"} | environ
        return support.run_python(*arguments, status=None, clean=("DEVRT_", "JAX_"), **environ)

    return run


PJRT_LOADER = """
    from devrt.hookspecs import hookimpl
    from devrt import contract
    from devrt.records import Available, ClientFactory, Unavailable

    calls = []

    def PjrtLoader(**members):
        members = {n: staticmethod(m) if callable(m) else m for n, m in members.items()}
        return type("Loader", (contract.PjrtLoader,), members)()

    def make_client(library, platform, options, context):
        from devrt_acme.client import AcmeClient
        calls.append((library, platform, dict(options), context.memory_kinds))
        version = "PJRT C API 0.7 (test)"
        fields = {"platform": platform, "platform_version": version,
                  "pjrt_c_api_major_version": 0, "pjrt_c_api_minor_version": 7}
        return type("LibraryClient", (AcmeClient,), fields)(options.get("count", 1))

    def check(library):
        if "bad" in str(library):
            return Unavailable("the library is too old", "Upgrade it.")
        return Available("version 7")

    def make_topology(library, platform, topology_name, options):
        return (library, platform, topology_name, options)

    @hookimpl
    def devrt_client_factories():
        return [ClientFactory(platform="loading", factory=print, probe=lambda: Unavailable("", ""))]

    @hookimpl
    def devrt_pjrt_loader():
        return {loader}
"""
FULL_LOADER = "PjrtLoader(make_client=make_client, check=check, make_topology=make_topology)"
LOADER_MANIFEST = 'schema = 1\n[[backend]]\nplatform = "loading"\npjrt_loader = {says}\n'


@pytest.fixture
def add_loader(plugins):
    """Return a function that installs a plugin that can load PJRT libraries."""

    def add(loader=FULL_LOADER, says="true"):
        manifest = LOADER_MANIFEST.format(says=says) if says else ""
        source = textwrap.dedent(PJRT_LOADER).replace("{loader}", loader)
        return plugins.package("loading", manifest, source, distribution="loading-dist")

    return add


REGISTER = """
import os
import jax._src.xla_bridge as xb

def initialize():
    library = os.path.join(os.path.dirname(__file__), "pjrt_zap.so")
    {before}
    xb.register_plugin({arguments})
    {after}
"""


@dataclasses.dataclass
class Wheels:
    """A folder on ``sys.path`` with wheels that were made for JAX."""

    path: object

    def add(self, source, *, entry="pjrt_plugin_zap", module="zap_jax", name="zap-wheel"):
        """Install one: a module of this source, a library beside it, and an entry point."""
        folder = self.path.joinpath(*module.split("."))
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(textwrap.dedent(source))
        (folder / "pjrt_zap.so").write_bytes(b"")
        points = f"[jax_plugins]\n{entry} = {module}\n" if entry else ""
        info = write_distribution(self.path, name, points)
        base = "/".join(module.split("."))
        files = (f"{base}/__init__.py", f"{base}/pjrt_zap.so")
        (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))
        return str(folder / "pjrt_zap.so")

    def register(
        self, arguments="'zip', library_path=library", before="pass", after="pass", **install
    ):
        """Install one whose ``initialize()`` calls register_plugin so; return its library."""
        source = REGISTER.format(arguments=arguments, before=before, after=after)
        return self.add(source, **install)

    def refs(self):
        return installed_plugins([str(self.path)])

    def registry(self):
        return PluginRegistry(
            self.refs, Callbacks(run_entries=lambda refs: entries.run_entries(refs))
        )

    def settled(self):
        """Return what the wheels' modules register."""
        registry = self.registry()
        registry.settle()
        return registry.refs()

    def runtime(self, **environ):
        return Runtime(config=Config(environ), discover=self.refs)


@pytest.fixture
def wheels(plugins, tmp_path, monkeypatch):
    """A folder for such wheels, which plugins may lie in too, and a cache of its own."""
    monkeypatch.setenv("DEVRT_CACHE_DIR", str(tmp_path / "cache"))
    return Wheels(plugins.path)


@pytest.fixture
def runs(monkeypatch):
    """The modules that children were started for."""
    found = []
    run_entries = entries.run_entries

    def run(guesses):
        found.extend(ref.entry for ref in guesses)
        return run_entries(guesses)

    monkeypatch.setattr(entries, "run_entries", run)
    return found
