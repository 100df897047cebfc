"""The plugin before it has a client: its import, its manifest, its records, its versions."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from devrt._support.record import replaced
from devrt.errors import PluginContractError
from devrt.plugins.discovery.installed import installed_plugins
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.load import load_plugin
from devrt.plugins.loading.manifest import BackendManifest
from devrt.plugins.loading.option_clashes import clash, declaration
from devrt.plugins.loading.plugin import Plugin
from devrt.plugins.registry import PluginRegistry
from devrt.probing.isolated import Level, ProbeRequest, probe_all
from devrt.records import Available, ClientFactory, DoctorFinding, Unavailable
from devrt.testing.conformance.case import case
from devrt.testing.conformance.clock import clock
from devrt.testing.conformance.expect import expect, expect_equal, require
from devrt.testing.conformance.processes import answer_of
from devrt.testing.conformance.subject import Subject
from devrt.testing.imports import installed_findings

MODULE = "hooks: importing the module loads no native library and takes a few milliseconds"
REFUSED = "policy: a plugin of a later major version, or of one before the oldest that is "
REFUSED += "supported, is refused"
_IMPORT = 0.010  # seconds of a processor
_WAITING = 0.500  # seconds by the clock: files are read slowly on a busy machine
_PROBE_SECONDS = 0.5
_OTHER_SECONDS = 20.0  # for another plugin, which may hang
_TRIES = 6  # a right plugin needs one or two, unless the machine is busy

_TIMED = """
import json, sys, time
import devrt.hookspecs, devrt.records, devrt.contract, devrt.errors
from devrt.testing.conformance.clock import clock
for name in sys.argv[2:]:
    __import__(name)
before, started, used = set(sys.modules), clock(), time.process_time()
__import__(sys.argv[1])
seconds = time.process_time() - used, clock() - started
core = [name for name in set(sys.modules) - before if name.startswith("devrt.")]
print()
print(json.dumps([*seconds, core]))
"""
_WATCHED = """
import json, sys
import devrt.hookspecs, devrt.records, devrt.contract, devrt.errors
seen, before = [], set(sys.modules)
def watch(event, arguments):
    if event == "ctypes.dlopen" and arguments[0]:
        seen.append(f"the library {arguments[0]}")
    elif event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "socket.connect"):
        seen.append(event)
sys.addaudithook(watch)
__import__(sys.argv[1])
for name in sorted(set(sys.modules) - before):
    file = str(getattr(sys.modules[name], "__file__", "") or "")
    is_own = name.partition(".")[0] not in sys.stdlib_module_names
    if name == "numpy" or (is_own and file.endswith((".so", ".pyd"))):
        seen.append(f"the module {name}")
print()
print(json.dumps(seen[:20]))
"""


def _module(subject: Subject) -> str:
    """Return the module that the entry point names."""
    require(subject.reference.module, "a PJRT library has no module")
    return subject.reference.module


@case("load", "its module is imported within 10 ms", contract=MODULE)
def import_is_quick(subject: Subject) -> None:
    module = _module(subject)
    core = answer_of(_TIMED, module)[2]  # what it uses of devrt is not its own time
    used: list[float] = []
    lasted: list[float] = []
    while len(used) < _TRIES and (not used or min(used) > _IMPORT or min(lasted) > _WAITING):
        processor, clock, _ = answer_of(_TIMED, module, *core)
        used.append(processor)
        lasted.append(clock)
    expect(
        min(used) <= _IMPORT,
        expected=f"{1000 * _IMPORT:g} ms of a processor for importing {module}, beyond the core",
        came=f"{1000 * min(used):.1f} ms, the best of {len(used)} processes",
    )
    expect(
        min(lasted) <= _WAITING,
        expected=f"{1000 * _WAITING:g} ms by the clock for importing {module}, on a busy machine",
        came=f"{1000 * min(lasted):.1f} ms, the best of {len(lasted)} processes",
    )


@case("load", "importing it loads no NumPy and no native code, and starts nothing", contract=MODULE)
def import_is_light(subject: Subject) -> None:
    loaded = answer_of(_WATCHED, _module(subject))
    expect_equal(loaded, [], f"what importing {subject.reference.module} brings in")


@case("load", "it imports of devrt what a backend may", contract="devrt.contract.PUBLIC_MODULES")
def imports_are_public(subject: Subject) -> None:
    reference = subject.reference
    findings = installed_findings(_module(subject), reference.distribution)
    expect_equal(findings, [], "imports that are not public")


@case("load", "its probe answers in time, with a record", contract="ClientFactory.probe")
def probe_answers(subject: Subject) -> None:
    probe = subject.backend.factory.probe
    seconds: list[float] = []
    answer: Any = None
    for _ in range(3):  # the first may read files that are not cached
        started = clock()
        answer = probe()
        seconds.append(clock() - started)
    records = isinstance(answer, Available | Unavailable)
    expect(records, expected="Available or Unavailable", came=type(answer).__name__)
    if isinstance(answer, Unavailable):
        is_whole = all(isinstance(text, str) and text for text in (answer.reason, answer.remedy))
        expect(is_whole, expected="a reason and a remedy, both texts", came=answer)
    else:
        expect_equal(type(answer.detail), str, "type of Available.detail")
    came = f"{min(seconds):.3f} s, the best of {len(seconds)}"
    is_quick = min(seconds) < _PROBE_SECONDS
    expect(is_quick, expected=f"an answer within {_PROBE_SECONDS} s", came=came)


def _manifest(subject: Subject) -> BackendManifest | None:
    """Return what its distribution says of it without an import."""
    from devrt.runtime import default_runtime

    return default_runtime().plugins.manifest(subject.reference)


def _plugin(subject: Subject) -> Plugin:
    """Return the plugin as its hooks have it, with nothing of its manifest in it."""
    _module(subject)
    return load_plugin(subject.reference, _manifest(subject))


def _record(subject: Subject) -> ClientFactory:
    factory = _plugin(subject).client_factory()
    require(factory is not None, "its client is made by the loader of PJRT libraries")
    assert factory is not None
    return factory


@case("load", "its manifest and its record say the same",
      contract="devrt.toml: a record leaves them out, and "
      "one that says something else makes the plugin broken")  # fmt: skip
def manifest_and_record_agree(subject: Subject) -> None:
    manifest = _manifest(subject)
    require(manifest is not None, "it has no manifest")
    assert manifest is not None
    record = _record(subject)
    expect_equal(record.platform, manifest.platform, "platform in the record")
    for name in manifest.disagrees_in(record):
        expect_equal(getattr(record, name), getattr(manifest, name), f"{name} in the record")


@case("load", "its hooks return the contract's records", contract="devrt.hookspecs")
def hooks_return_records(subject: Subject) -> None:
    plugin = _plugin(subject)
    served = plugin.clients or plugin.libraries or plugin.topologies or plugin.memory_kinds
    expect(served or plugin.loader or plugin.traits, expected="something that it adds", came="none")
    found = plugin.findings() if plugin.findings is not None else ()
    for finding in found:
        expect(isinstance(finding, DoctorFinding), expected="DoctorFinding", came=type(finding))


@case("load", "none of its options is declared otherwise by another plugin that is installed",
      contract="hooks: an option that devrt itself or another plugin declares otherwise makes the "
      "plugin that is loaded second broken", deadline=60.0)  # fmt: skip
def options_clash_with_none(subject: Subject) -> None:
    own = {spec.name: declaration(spec) for spec in subject.backend.factory.options}
    require(own, "it declares no options")
    others = [ref for ref in installed_plugins() if ref.module and ref != subject.reference]
    requests = [ProbeRequest(ref, Level.LOAD, _OTHER_SECONDS) for ref in others]
    found = [
        clash(name, f"plugin {ref}", theirs, own[name])
        for ref, report in zip(others, probe_all(requests), strict=True)
        for name, theirs in report.facts.get("declared", {}).items()
        if name in own
    ]
    expect_equal([what for what in found if what], [], "options that are declared differently")


@case("load", "it describes itself for reports in words", contract="ClientFactory.describe")
def describes_itself(subject: Subject) -> None:
    factory = subject.backend.factory
    options = {spec.name: spec.default for spec in factory.options}
    expect_equal(type(factory.describe(options)), str, "type of what describe returns")


@case("load", "it says which contract it was built against",
      contract="ClientFactory.api_version: the version of the contract that the plugin was built "
      "against, as a literal")  # fmt: skip
def says_its_contract(subject: Subject) -> None:
    _module(subject)
    text = _manifest_text(subject.reference)
    is_there = "api_version" in text or _record(subject).api_version is not None
    came = "nothing, in its manifest nor in its record: it counts as built against 1.0"
    expect(is_there, expected="a version of the contract", came=came)


def _manifest_text(reference: PluginRef) -> str:
    from devrt.plugins.loading.manifest_file import manifest_path

    path = manifest_path(reference)
    is_file = path is not None and Path(path).is_file()
    return Path(path).read_text(encoding="utf-8") if path and is_file else ""


@case("load", "beside a core that is too old for it, it is refused with both numbers",
      contract=REFUSED, alone=True)  # fmt: skip
def refused_by_an_older_core(subject: Subject) -> None:
    _expect_refused(subject, "99.0")


@case("load", "beside a core that is too new for it, it is refused with both numbers",
      contract=REFUSED, alone=True)  # fmt: skip
def refused_by_a_newer_core(subject: Subject) -> None:
    _expect_refused(subject, "0.9")


def _expect_refused(subject: Subject, version: str) -> None:
    """Load the same module as a plugin that was built against another version of the contract."""
    import sys

    module = _module(subject)
    with _rebuilt(subject.reference, version) as other:
        try:
            PluginRegistry(lambda: [other]).load(other)
        except PluginContractError as error:
            message = error.message
        else:
            message = "nothing: it was loaded"
    for number in (version, _current()):
        expect(number in message, expected=f"an error that names {number}", came=message)
    expect(module not in sys.modules, expected="no import of what is refused", came="one")


@contextlib.contextmanager
def _rebuilt(reference: PluginRef, version: str) -> Iterator[PluginRef]:
    """Give a plugin that is the subject's module with another version in its manifest."""
    import sys

    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "devrt_conform_skewed")
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "plugin.py").write_text(f"from {reference.module} import *\n")
        text = f'schema = 1\n[[backend]]\nplatform = "{reference.platform}"\n'
        (package / "devrt.toml").write_text(f'{text}api_version = "{version}"\n')
        sys.path.insert(0, folder)
        try:
            yield replaced(reference, module="devrt_conform_skewed.plugin")
        finally:
            sys.path.remove(folder)


def _current() -> str:
    from devrt.testing.conformance.surroundings import environment_facts

    return str(environment_facts()["contract"])
