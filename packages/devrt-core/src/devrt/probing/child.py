"""What runs in the child process of an isolated probe; see `devrt.probing.isolated`.

The child tells its parent each phase before it begins it, so that a crash is known by where it
happened. It speaks on a pipe of its own: what plugin code prints cannot be mistaken for a reply.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from devrt._support.words import words
from devrt.probing.replying import Pipe, stay_harmless

if TYPE_CHECKING:
    from devrt.plugins.discovery.installed import PluginRef
    from devrt.plugins.loading.plugin import Plugin
    from devrt.records import ClientFactory

__all__ = ["FINDING_FIELDS", "library_facts", "main"]

FINDING_FIELDS = ("code", "message", "remedy", "severity", "command")

is_running = False
"""Whether this process is such a child: it starts none of its own."""

_CLIENT = 2
_WITH_TRACEBACK = ("other", "import", "dependency")


class _UnusableError(Exception):
    """The plugin answered with something that the contract does not allow."""


def main(request: dict[str, Any]) -> NoReturn:
    """Do what the request asks, report it, and leave without clean-up."""
    global is_running
    is_running = True
    # A plugin that asks devrt meanwhile is refused as it is without isolation, and so are the
    # processes that it starts.
    os.environ["DEVRT_PROBE"] = "in-process"
    stay_harmless(int(request["parent"]))
    reporter = Pipe(int(request["descriptor"]), request["token"])
    loaded: list[Plugin] = []
    answer: dict[str, Any]
    examine = _record if "entry" in request else _examine
    try:
        answer = {"facts": examine(request, reporter, loaded)}
    except BaseException as error:  # noqa: BLE001  plugin code: whatever it raises is the verdict
        answer = _failure(error)
        if answer["kind"] in _WITH_TRACEBACK:
            _show_traceback(error)
    if loaded and request["findings"] and loaded[0].findings is not None:
        reporter.say(kept=answer)  # should the process not survive its last question
        answer["findings"] = _findings(loaded[0])
    reporter.say(**answer)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # plugin code may have closed or replaced it
            stream.flush()
    # Exit handlers and destructors of plugin code are not what this is about.
    os._exit(0)


def _show_traceback(error: BaseException) -> None:
    """Print where plugin code failed: the parent keeps the last lines that are printed."""
    import traceback

    with contextlib.suppress(Exception):  # plugin code: an exception of its own may not even print
        traceback.print_exception(error.__cause__ or error, chain=False)


def _findings(plugin: Plugin) -> list[dict[str, str]] | str:
    """Return what a plugin has to say to the doctor, or what kept it from saying it."""
    try:
        found = plugin.findings() if plugin.findings is not None else ()
        return [{name: getattr(item, name) for name in FINDING_FIELDS} for item in found]
    except BaseException as error:  # noqa: BLE001  plugin code: a hook may raise anything
        return f"{type(error).__name__}: {words(error)}"[:4000]


def _failure(error: BaseException) -> dict[str, Any]:
    from devrt.errors import PluginContractError, PluginLoadError
    from devrt.plugins.loading.faults import missing_module

    kind, remedy = "other", str(getattr(error, "remedy", "") or "")
    missing = str(getattr(error, "missing", "") or "") or missing_module(error)
    if isinstance(error, PluginContractError | _UnusableError):
        kind = "contract"
        if hasattr(error, "api_version"):
            kind = "version"
        if getattr(error, "phase", "") == "manifest":
            kind = "manifest"
    elif hasattr(error, "built_abi"):
        kind = "version"
    elif isinstance(error, PluginLoadError):
        kind = "dependency" if missing else "import"
    elif _is_configured(error):
        kind = "config"
    elif isinstance(error, ImportError):
        kind = "dependency" if missing else "import"
    name = "PluginContractError" if isinstance(error, _UnusableError) else type(error).__name__
    return {
        "error": name[:200],
        "message": words(error)[:4000],
        "kind": kind,
        "missing": missing[:200],
        "upgrade": str(getattr(error, "upgrade", "") or "")[:200],
        "remedy": remedy[:1000],
    }


def _is_configured(error: BaseException) -> bool:
    """Return whether an error is of a value that the user set; here no program gives one."""
    from devrt.errors import ConfigError, InvalidArgumentError

    of_option = isinstance(error, InvalidArgumentError) and bool(getattr(error, "option", ""))
    return of_option or isinstance(error, ConfigError)


def _record(request: dict[str, Any], reporter: Pipe, _: list[Plugin]) -> dict[str, Any]:
    """Run a module that was made for JAX against what stands in for it."""
    from devrt.plugins.adoption.stand_in import record_module

    return record_module(request["entry"], reporter.say)


def _examine(request: dict[str, Any], reporter: Pipe, loaded: list[Plugin]) -> dict[str, Any]:
    reporter.say(phase="load")
    ref = _ref(request["ref"])
    if ref.registered:
        from devrt.plugins.discovery.registered import registered, set_environment

        set_environment(registered(ref))
    facts = library_facts(ref.library, ref.global_symbols) if ref.library else {}
    return facts | _examine_plugin(ref, request, reporter, loaded)


def _ref(fields: Mapping[str, Any]) -> PluginRef:
    from devrt.plugins.discovery.installed import PluginRef

    thawed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return PluginRef(**thawed)


def _examine_plugin(
    ref: PluginRef, request: dict[str, Any], reporter: Pipe, loaded: list[Plugin]
) -> dict[str, Any]:
    from devrt.plugins.catalogue import Callbacks
    from devrt.plugins.discovery.installed import installed_plugins
    from devrt.plugins.judging import SIMULATED
    from devrt.plugins.registry import PluginRegistry
    from devrt.probing.description import description
    from devrt.records import Available, Unavailable

    # The others are known, and not loaded: one of them may be what loads libraries.
    is_set = _is_set(request["options"])
    registry = PluginRegistry(lambda: {ref, *installed_plugins()}, Callbacks(is_set=is_set))
    plugin = registry.load(ref)
    loaded.append(plugin)
    factory = plugin.client_factory()
    facts = _records_of(plugin, factory)
    if factory is None:
        return facts
    options, facts["refused"] = _options(plugin, factory, request["options"])
    reporter.say(phase="probe")
    is_simulated = factory.simulates and registry.is_simulated(ref)
    state: Any = SIMULATED if is_simulated else factory.probe()
    request["findings"] &= not is_simulated  # what plugins say there is about the machine
    if isinstance(state, Unavailable):
        reason = str(state.reason) or "it cannot be used here, and does not say why"
        return facts | {"unavailable": reason, "remedy": str(state.remedy)}
    if not isinstance(state, Available):
        msg = f"its probe returned {type(state).__name__}, not Available or Unavailable"
        raise _UnusableError(msg)
    facts["detail"] = str(state.detail)
    facts["description"] = "" if facts["refused"] else description(factory, options)
    if request["level"] >= _CLIENT and not facts["refused"]:
        reporter.say(phase="client")
        facts |= _client_facts(plugin, factory, options)
    return facts


def _is_set(given: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return what says whether a variable is set, or its option, also by the parent's calls."""
    from devrt._config.keys import option_of
    from devrt._config.layers import Config

    config = Config(check_keys=False)

    def is_set(variable: str) -> bool:
        name = option_of(variable)
        return bool(given[name]) if name in given else config.is_set(variable)

    return is_set


def _options(
    plugin: Plugin, factory: ClientFactory, given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a platform's options, and what is wrong with those that are refused."""
    from devrt._config.layers import Config
    from devrt.errors import ConfigError
    from devrt.plugins.loading.option_clashes import clash_error

    # The parent's environment and folder are this process's, and it knows every plugin's options.
    config = Config(check_keys=False)
    values, refused = {}, []
    try:
        config.define(*factory.options)
    except ConfigError as error:
        raise clash_error(plugin, config.spec(error.data["option"]), ()) from error
    for spec in factory.options:
        try:
            values[spec.name] = given.get(spec.name, config.read(spec.name))
        except ConfigError as error:
            refused.append(error.message)
    return values, refused


def _records_of(plugin: Plugin, factory: ClientFactory | None) -> dict[str, Any]:
    from devrt.plugins.loading.option_clashes import declaration, options_of

    facts: dict[str, Any] = {
        "memory_kinds": [f"{kind.platform}:{kind.kind}" for kind in plugin.memory_kinds],
        "topologies": [topology.platform for topology in plugin.topologies],
        "traits": [name for made in plugin.traits for name in made.platforms or made.patterns],
        "serves": False,
        "global_symbols": bool(plugin.global_symbols()),
    }
    if factory is not None:
        facts |= {
            "serves": True,
            "priority": factory.priority,
            "aliases": list(factory.aliases),
            "experimental": bool(factory.experimental),
            "fail_quietly": bool(factory.fail_quietly),
            "options": [spec.name for spec in factory.options],
            "declared": {spec.name: declaration(spec) for spec in options_of(plugin)},
        }
    return facts


def _client_facts(
    plugin: Plugin, factory: ClientFactory, options: Mapping[str, Any]
) -> dict[str, Any]:
    from devrt.plugins.loading.plugin import made_by
    from devrt.probing.client_checks import problem_of
    from devrt.records import ClientContext

    own = tuple(kind for kind in plugin.memory_kinds if kind.platform == plugin.ref.platform)
    context = ClientContext(options=options, memory_kinds=own)
    client: Any
    try:
        client = made_by(factory, context)
    except TypeError as error:
        from devrt.contract.incomplete import incomplete_classes

        incomplete = incomplete_classes(plugin.ref.module)
        if incomplete:
            raise _UnusableError(f"of its classes, {incomplete}") from error
        raise
    problem = problem_of(plugin.ref, client)
    if problem:
        raise _UnusableError(problem)
    devices = client.devices()
    facts = {
        "device_count": len(devices),
        "device_kinds": sorted({str(device.device_kind) for device in devices})[:16],
        "platform_version": str(client.platform_version),
    }
    client.close()
    return facts


def library_facts(path: str, is_global: bool = False) -> dict[str, Any]:
    """Open a PJRT library and return the version of the C API that it was built with.

    Reads the head of ``PJRT_Api``: struct_size, extension_start, then a version structure of
    struct_size, extension_start, major and minor (``PJRT_Api_Version`` of the PJRT C API).
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}")
    # Never closed: libraries of this kind crash when they are.
    keep = getattr(os, "RTLD_NODELETE", 0)
    scope = os.RTLD_GLOBAL if is_global else os.RTLD_LOCAL
    library = ctypes.CDLL(path, mode=os.RTLD_NOW | scope | keep)
    try:
        get_api = library.GetPjrtApi
    except AttributeError:
        raise ImportError(f"{os.path.basename(path)} exports no function GetPjrtApi") from None
    get_api.restype = ctypes.c_void_p
    address = get_api()
    if not address:
        raise ImportError(f"GetPjrtApi of {os.path.basename(path)} returned nothing")
    pointer = ctypes.sizeof(ctypes.c_void_p)
    size = ctypes.c_size_t.from_address(address).value
    if size < 5 * pointer:
        raise ImportError(
            f"GetPjrtApi of {os.path.basename(path)} returned a table of {size} bytes"
        )
    version_at = address + 2 * pointer
    major = ctypes.c_int.from_address(version_at + 2 * pointer).value
    minor = ctypes.c_int.from_address(version_at + 2 * pointer + 4).value
    return {"pjrt_version": [major, minor], "pjrt_api_size": size}
