"""What stands in for ``jax`` in a child process that runs a plugin's ``initialize()``.

A module made for JAX says its platform, priority and options only by what it registers there. Its
``initialize()`` runs in a child of its own, whose imports of ``jax`` and ``jaxlib`` end here: what
it registers is recorded, and the real packages are not imported, be they installed or not. The few
names that such modules take values from are made below. Every other name of ``jax`` may be called,
subclassed and used as a decorator, as modules do that define lowerings beside, but not looked at:
a value that nobody knows must not decide what is registered.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from devrt._support.words import words
from devrt.plugins.adoption.unknown import Unknown
from devrt.plugins.discovery.registered import digest_of

__all__ = ["record_module"]

_ROOTS = ("jax", "jaxlib")
_DEFAULT_PRIORITY = 400  # of register_plugin in JAX
_NEWER_THAN_ALL = 1 << 30  # for comparisons with the numbers of jaxlib's own interface
_VERSION = "0.12.0"
_MAX_READ, _MAX_FILES = 500, 400
_MAX_WORDS = 2000

_BRIDGES = ("jax._src.xla_bridge", "jax.lib.xla_bridge")
_EXTENDED = "jax.extend.backend"  # the documented one
_CLIENTS = (
    *("jax._src.lib.xla_client", "jax._src.lib.xla_extension", "jax._src.lib._jax"),
    *("jax.lib.xla_client", "jax.lib.xla_extension"),
    *("jaxlib.xla_client", "jaxlib.xla_extension", "jaxlib._jax"),
)
_MADE = (
    *("jaxlib", "jaxlib.version", "jaxlib.plugin_support", "jax.version", "jax._src.config"),
    *(_EXTENDED, *_BRIDGES, *_CLIENTS),
)

Say = Callable[..., None]


class _State:
    """A configuration option as JAX's own modules hold it: its value is an attribute."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Table:
    """What stands for a library's function table, and knows the library where that was given."""

    def __init__(self, library: str = "") -> None:
        self.library = library


class _Recorder:
    """What was registered so far, reported at each change: the process may not live to the end."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.registered: list[dict[str, Any]] = []
        self.missing: list[str] = []
        self.open: dict[str, _Table] = {}
        self._on_change = on_change

    def register_plugin(
        self,
        plugin_name: str,
        priority: int = _DEFAULT_PRIORITY,
        library_path: Any = None,
        options: Any = None,
        c_api: Any = None,
        **others: Any,
    ) -> _Table:
        table = c_api if isinstance(c_api, _Table) else self.open.get(plugin_name, _Table())
        unknown = "it registers a function table, not a library"
        if library_path is not None:
            table, unknown = _located(library_path)
        self._add(plugin_name, priority, table, unknown)
        self.registered[-1] |= _options(options)
        self._on_change()
        return table

    def register_backend_factory(
        self, name: str, factory: Any, *, priority: int = 0, **others: Any
    ) -> None:
        table = self.open.get(name, _Table())
        self._add(name, priority, table, "it registers a factory, not a library")
        self._on_change()

    def _add(self, name: Any, priority: Any, table: _Table, unknown: str) -> None:
        if not isinstance(name, str) or not name or set(name) & set(",@ \t\n"):
            raise TypeError(f"{name!r} is no platform's name")
        if not isinstance(priority, int):
            raise TypeError(f"the priority of {name!r} is an integer, not {priority!r}")
        library = {"library": table.library, "unknown_library": "" if table.library else unknown}
        former = [one for one in self.registered if one["name"] == name.lower()]
        for one in former:  # the last one counts, as in JAX
            self.registered.remove(one)
        self.registered.append({"name": name.lower(), "priority": int(priority), **library})

    def load(self, plugin_name: str, library_path: Any) -> _Table:
        return self.open.setdefault(plugin_name, _located(library_path)[0])

    def load_table(self, plugin_name: str, c_api: Any) -> None:
        self.open[plugin_name] = c_api if isinstance(c_api, _Table) else _Table()


def _located(library_path: Any) -> tuple[_Table, str]:
    """Return a library that was named, or nothing and why it may be another one tomorrow."""
    path = os.fsdecode(os.fspath(library_path))
    if os.path.isabs(path):
        return _Table(path), ""
    return _Table(), f"it names its library {path!r}, which depends on the current folder"


def _options(options: Any) -> dict[str, Any]:
    """Return the options that can be kept, and the others by name with what is wrong with them."""
    from devrt.plugins.discovery.pjrt_env import check_options

    try:
        given = dict((options() if callable(options) else options) or {})
    except Exception as error:  # noqa: BLE001  plugin code
        return {"options": {}, "lost": [f"all of them: {_sentence(error)}"]}
    kept: dict[str, Any] = {}
    lost = []
    for name, value in given.items():
        try:
            kept |= check_options({name: _plain(value)})
        except Exception as error:  # noqa: BLE001  plugin code: a value may be of any class
            lost.append(f"{name}: {words(error)[:_MAX_WORDS]}")
    return {"options": kept, "lost": lost}


def _plain(value: Any) -> Any:
    """Return numbers and arrays of NumPy's, say, as Python's; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    listed = None if isinstance(value, Unknown) else getattr(value, "tolist", None)
    return listed() if callable(listed) else value


# -- the packages ---------------------------------------------------------------------------------


class _Config:
    """``jax.config``: nothing is set, and what is set is let pass."""

    def __init__(self, missing: list[str]) -> None:
        self.__missing = missing

    def update(self, name: str, value: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None if name in _UNSET else Unknown(f"jax.config.{name}", self.__missing)


_UNSET = ("jax_platforms", "jax_platform_name")


class _Module(ModuleType):
    """A module of the stand-in: the names that it was made with, its submodules, and unknowns."""

    def __init__(self, name: str, recorder: _Recorder) -> None:
        super().__init__(name)
        self.__recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        path = f"{self.__name__}.{name}"
        if self.__name__ in _BRIDGES and name.endswith("_VISIBLE_DEVICES"):
            return _State("all")
        if any(f"{known}.".startswith(f"{path}.") for known in _MADE):
            return importlib.import_module(path)
        if path.startswith("jaxlib.") and not _is_made(self.__name__):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return Unknown(path, self.__recorder.missing)


def _is_made(name: str) -> bool:
    return name in _MADE or f"{name}.".startswith("jaxlib.mlir.")


class _Finder:
    """Finds every module of ``jax`` and of what is made of ``jaxlib``, before the real ones."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        root = name.partition(".")[0]
        if root not in _ROOTS:
            return None
        if root == "jaxlib" and not _is_made(name):
            self._recorder.missing.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name, self._recorder)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_contents(module.__name__, self._recorder))


def _contents(name: str, recorder: _Recorder) -> Mapping[str, Any]:
    if name in ("jax", "jaxlib", "jax.version", "jaxlib.version"):
        version = _version_of(name.partition(".")[0])
        numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
        config = {"config": _Config(recorder.missing)} if name == "jax" else {}
        return {"__version__": version, "__version_info__": numbers, **config}
    if name == "jax._src.config":
        states = {option: _State(None) for option in _UNSET}
        return {"config": _Config(recorder.missing), **states}
    if name in _BRIDGES:
        return {
            "register_plugin": recorder.register_plugin,
            "register_backend_factory": recorder.register_backend_factory,
            "discover_pjrt_plugins": lambda: None,
            "expand_platform_alias": lambda platform: [platform],
        }
    if name == _EXTENDED:
        return {"register_backend_factory": recorder.register_backend_factory}
    if name == "jaxlib.plugin_support":
        return {"import_from_plugin": lambda *args, **named: None}
    if name == "jax._src.lib":
        return {
            "xla_extension_version": _NEWER_THAN_ALL,
            "jaxlib_extension_version": _NEWER_THAN_ALL,
        }
    return _client_contents(recorder) if name in _CLIENTS else {}


def _client_contents(recorder: _Recorder) -> dict[str, Any]:
    return {
        "_version": _NEWER_THAN_ALL,
        "load_pjrt_plugin_dynamically": recorder.load,
        "load_pjrt_plugin_with_c_api": recorder.load_table,
        "pjrt_plugin_loaded": lambda name: name in recorder.open,
        "pjrt_plugin_initialized": lambda name: False,
        "initialize_pjrt_plugin": lambda name: None,
        "generate_pjrt_gpu_plugin_options": _gpu_options,
    }


def _gpu_options() -> Any:
    from devrt._config.gpu_options import generate_pjrt_gpu_plugin_options

    return generate_pjrt_gpu_plugin_options()


def _version_of(distribution: str) -> str:
    from importlib import metadata

    try:
        version: str = metadata.version(distribution)
        return version
    except metadata.PackageNotFoundError:
        return _VERSION


# -- the recording --------------------------------------------------------------------------------


class _WatchedEnviron(os._Environ[str]):
    """``os.environ`` that notes which variables were read: a verdict depends on their values."""

    def __getitem__(self, key: str) -> str:
        _read.add(key)
        value: str = super().__getitem__(key)
        return value


_read: set[str] = set()


def record_module(module: str, say: Say) -> dict[str, Any]:
    """Import a module, run its ``initialize()``, and return what it registered.

    Beside ``registered``: ``missing`` (names of JAX that were requested in vain), ``environment``
    (variables that it set, None for those that it removed), ``read`` (variables that it read, with
    a digest of their values), ``files`` (those of the modules that it imported), ``initializes``
    (whether it has such a function) and ``error`` (what it raised). ``say`` tells the parent the
    phase, and what is known already.
    """
    before = _variables()
    facts: dict[str, Any] = {"initializes": False, "error": ""}

    modules = set(sys.modules)

    def known() -> dict[str, Any]:
        return {**facts, **_surroundings(before), "files": _files_of(sys.modules.keys() - modules)}

    recorder = _Recorder(lambda: say(kept={"facts": known()}))
    facts |= {"registered": recorder.registered, "missing": recorder.missing}
    for name in [name for name in sys.modules if name.partition(".")[0] in _ROOTS]:
        del sys.modules[name]  # the interpreter's own start may have imported them
    sys.meta_path.insert(0, _Finder(recorder))
    os.environ.__class__ = _WatchedEnviron
    say(phase="load")
    try:
        _run(module, say, facts)
    except BaseException as error:  # noqa: BLE001  plugin code: whatever it raises is the verdict
        facts["error"] = _sentence(error)
    return known()


def _run(module: str, say: Say, facts: dict[str, Any]) -> None:
    name, _, function = module.partition(":")
    found = importlib.import_module(name)
    initialize = getattr(found, function or "initialize", None)
    if callable(initialize):
        facts["initializes"] = True
        say(phase="initialize")
        initialize()


def _surroundings(before: Mapping[str, str]) -> dict[str, Any]:
    now = _variables()
    changed: dict[str, str | None] = {k: v for k, v in now.items() if before.get(k) != v}
    changed |= dict.fromkeys(before.keys() - now.keys())
    read = sorted(_read)[:_MAX_READ]
    return {"environment": changed, "read": {k: digest_of(before.get(k)) for k in read}}


def _files_of(modules: Iterable[str]) -> list[str]:
    """Return the files of modules, but for those of Python's own library."""
    own = os.path.dirname(os.__file__)
    found = (getattr(sys.modules.get(name), "__file__", None) for name in sorted(modules))
    return [
        file
        for file in found
        if isinstance(file, str) and (os.path.dirname(file) != own or "site-packages" in file)
    ][:_MAX_FILES]


def _variables() -> dict[str, str]:
    """Return the environment without reading it through what is watched."""
    return {os.fsdecode(key): os.fsdecode(value) for key, value in os.environb.items()}


def _sentence(error: BaseException) -> str:
    message = words(error)[:_MAX_WORDS]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
