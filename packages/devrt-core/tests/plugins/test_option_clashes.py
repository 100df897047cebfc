"""An option that two plugins declare: shared where the words are equal, else one is broken."""

import pytest

from devrt.doctor import diagnose
from devrt.errors import PluginContractError
from devrt.records import Available, OptionSpec
from devrt.testing.conformance import Status, conform

CASE = "load.options_clash_with_none"
WORDS = "its option 'num_shared' is declared otherwise by plugin fake-one 1.0"


def spec(default, name="num_shared"):
    return f"OptionSpec(name={name!r}, type=int, default={default})"


def add(plugins, platform, *specs, **fields):
    plugins.add(platform, options=f"({''.join(f'{each}, ' for each in specs)})", **fields)


def examined(plugins, tmp_path, **environ):
    with plugins.runtime(**environ) as runtime:
        return diagnose(runtime=runtime, root=tmp_path)


def test_reports_find_what_the_runtime_does(plugins, tmp_path):
    """Each plugin is examined in a process of its own; a program has them all in one."""
    add(plugins, "one", spec(1))
    add(plugins, "two", spec(2), priority=9)
    with plugins.runtime() as runtime:
        chosen = runtime.decide().chosen.ref.platform
        states = {c.ref.platform: c.state for c in runtime.plugins.candidates()}
    report = examined(plugins, tmp_path)
    rows = {row.platform: row for row in report.plugins}
    assert (chosen, rows["one"].state, rows["two"].state) == ("one", "chosen", "broken")
    assert report.default == "one@fake-one"
    assert f"{WORDS}, which was loaded before it (default: 1 there, 2 here)" in rows["two"].reason
    assert states["two"].reason in rows["two"].reason
    (found,) = (each for each in report.findings if each.code == "plugin-contract")
    assert (found.subject, found.remedy) == ("two@fake-two", states["two"].remedy)
    assert "Rename one of the two" in found.remedy


def test_the_plugin_that_is_loaded_alone_works(plugins, tmp_path):
    add(plugins, "one", spec(1))
    add(plugins, "two", spec(2))
    report = examined(plugins, tmp_path, DEVRT_PLATFORMS="two")
    assert report.default == "two@fake-two"
    with plugins.runtime() as runtime:
        assert runtime.get_backend("two").platform == "two"
        assert runtime.config.read("num_shared") == 2


def test_the_same_words_are_no_clash(plugins, tmp_path):
    add(plugins, "one", spec(1))
    add(plugins, "two", spec(1))
    assert {row.state for row in examined(plugins, tmp_path).plugins} == {"chosen", "eligible"}
    (result,) = conform("two", cases=[CASE]).results
    assert result.status is Status.PASSED, result.came


def test_an_option_of_the_core(plugins, tmp_path):
    add(plugins, "one", spec(1, "init_timeout"))
    words = "its option 'init_timeout' is declared otherwise by devrt itself (type: 'float' there"
    with plugins.runtime() as runtime:
        with pytest.raises(PluginContractError, match="Rename it, with its platform's") as caught:
            runtime.plugins.load(plugins.ref("one"))
        assert runtime.config.spec("init_timeout").type is float
    assert words in caught.value.message
    report = examined(plugins, tmp_path)
    (found,) = (each for each in report.findings if each.code == "plugin-contract")
    assert words in found.message


def test_a_plugin_that_is_refused_adds_no_options(plugins):
    add(plugins, "one", spec(1))
    add(plugins, "two", spec(5, "num_other"), spec(2))
    add(plugins, "zoo", spec(7, "num_other"))
    with plugins.runtime() as runtime:
        states = {c.ref.platform: c.state for c in runtime.plugins.candidates()}
        other = runtime.config.spec("num_other")
    assert states["zoo"] == Available("simulated")
    assert other == OptionSpec(name="num_other", type=int, default=7)


def test_the_kit_sees_it_from_both_sides(plugins):
    add(plugins, "one", spec(1))
    add(plugins, "two", spec(2))
    for name, other in (("one", "two"), ("two", "one")):
        (result,) = conform(name, cases=[CASE]).results
        assert result.status is Status.FAILED
        assert f"declared otherwise by plugin fake-{other} 1.0 (default: " in result.came
