"""What the doctor proposes to type next, and the findings that it follows from."""

import pytest

from devrt.doctor import entries
from devrt.doctor.diagnosis import _of_plugin
from devrt.doctor.examination import Examination, Examined
from devrt.plugins import Candidate, PluginRef, Policy, select
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.refs import FROM_TABLE
from devrt.probing.isolated import Level, ProbeReport
from devrt.records import Available, Unavailable


@pytest.mark.parametrize(
    "source", [{"source": "import no_such_one"}, {"make": "import no_such_one"}]
)
def test_a_missing_module_is_a_missing_dependency_wherever_it_is_missed(plugins, examine, source):
    plugins.add("one", **source)
    (found,) = [f for f in examine().findings if f.subject == "one@fake-one"]
    assert found.code == "plugin-missing-dependency"
    assert "'no_such_one'" in found.message
    assert found.command == "pip install --force-reinstall fake-one"
    assert found.command in found.remedy


@pytest.mark.parametrize(
    ("built", "command"),
    [(0, "pip install --upgrade fake-one"), (9, "pip install --upgrade ./packages/devrt-core")],
)
def test_another_native_abi_is_a_mismatch_of_versions(plugins, examine, built, command):
    plugins.add("one", make=f"from devrt.native import check_abi; check_abi('fake_one', {built})")
    (found,) = [f for f in examine().findings if f.subject == "one@fake-one"]
    assert (found.code, found.command) == ("version-mismatch", command)
    assert f"version {built} of devrt's native ABI" in found.message
    assert examine().next_command == command


def test_what_is_requested_and_not_installed_is_what_to_install(plugins, examine):
    plugins.add("one")
    report = examine(platforms="gpu")
    assert report.status == 2
    assert report.next_command == 'pip install ./packages/devrt-tpu "./packages/devrt-cuda[xla]"'
    (found,) = report.findings
    assert (found.code, found.remedy) == ("default-failed", "Install what serves it.")
    nonsense = examine(platforms="nonsense")
    assert nonsense.next_command == "devrt list"
    assert nonsense.findings[0].remedy == "Ask for a platform that is installed."


def test_where_nothing_works_the_list_of_reasons_is_next(plugins, examine):
    plugins.add("cpu", probe="return Unavailable('no core', 'Buy one.')")
    report = examine()
    assert (report.status, report.next_command) == (2, "devrt list")


def test_where_no_accelerator_is_here_the_host_s_backend_is_next(plugins, examine):
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')")
    report = examine()
    assert (report.status, report.next_command) == (2, "pip install ./packages/devrt-cpu")
    assert "The host's own processor has one too: pip install" in report.default_reason
    plugins.add("broken", "raise OSError('cracked')")
    assert examine().next_command == "pip install --upgrade fake-broken"


def test_a_library_that_nothing_can_load_failed_at_nothing():
    ref = PluginRef("acme", "acme-pjrt", library="/x.so", source=FROM_TABLE)
    remedy = adopted_table().loader_remedy
    candidate = Candidate(ref, Unavailable("no loader", remedy))
    report = ProbeReport("unavailable", "probe", "no loader", {"remedy": remedy})
    examined = Examined(ref, Level.CLIENT, report=report, candidate=candidate)
    decision = select((candidate,), Policy())
    found = Examination((examined,), Policy(), decision, "", ())
    (entry,) = entries(found)
    assert (entry.state, entry.reason, entry.remedy) == ("unavailable", "no loader", remedy)
    assert {rule.rule: rule.passed for rule in entry.rules} == {
        **dict.fromkeys(("found", "policy", "load"), True),
        **dict.fromkeys(("manifest", "probe", "client", "choice")),
    }


def test_two_backends_of_a_platform_are_a_choice_and_no_command_removes_one(plugins, examine):
    plugins.add("one", priority=5)
    plugins.add("one", distribution="other-one")
    report = examine()
    (found,) = report.findings
    assert (found.code, found.subject) == ("platform-duplicate", "one@other-one")
    assert report.next_command == "devrt devices"


def test_the_library_that_a_backend_brings_is_no_second_one():
    own = PluginRef("acme", "devrt-acme", module="devrt_acme.plugin")
    brought = PluginRef("acme", "acme-pjrt", library="/x.so", source=FROM_TABLE)
    candidates = (Candidate(own, Available(""), 300), Candidate(brought, Available(""), 100))
    examined = tuple(Examined(c.ref, Level.METADATA, candidate=c) for c in candidates)
    found = Examination(examined, Policy(), select(candidates, Policy()), "", ())
    shadowed = entries(found)[1]
    assert (shadowed.name, shadowed.state) == ("acme@acme-pjrt", "shadowed")
    assert list(_of_plugin(shadowed, found)) == []
