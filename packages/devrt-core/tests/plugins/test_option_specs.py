"""Options that a plugin declares wrongly: refused when it is loaded, whatever value they get."""

import pytest

from devrt.doctor import diagnose
from devrt.errors import PluginContractError
from devrt.plugins import PluginRegistry
from devrt.records import Available
from devrt.testing.conformance import Status, conform

BREACHES = {  # the fields of an option, the wrong one, and what to give
    "a name that is no text": ("name=5, type=int", "name = 5; give small letters"),
    "an empty name": ("name='', type=int", "name = ''; give small letters"),
    "a name in capitals": ("name='NUM', type=int", "name = 'NUM'; give small letters"),
    "a name as JAX's": ("name='jax_num', type=int", "name = 'jax_num'; .* no jax_ before"),
    "no such type": ("type=list", r"type = <class 'list'>; give int, float, bool or str"),
    "a type in words": ("type='int'", "type = 'int'; give int, float, bool or str"),
    "a value as type": ("type=3", "type = 3; give int"),
    "a help that is none": ("type=int, help=None", "help = None; give a sentence"),
    "a flag without its variable": ("type=int, flag='--num'", "flag = '--num'; give the variable"),
    "a flag that is none": ("type=int, flag=None", "flag = None; give the variable and the flag"),
    "another unit": ("type=int, unit='seconds'", "unit = 'seconds'; give 'bytes'"),
    "a unit of text": ("type=str, unit='bytes'", "unit = 'bytes'; .* of type int or float"),
    "a minimum as text": ("type=int, minimum='1'", "minimum = '1'; give a number"),
    "a maximum that is a truth value": ("type=int, maximum=True", "maximum = True; give a number"),
    "a maximum that is no number": (
        "type=float, maximum=float('nan')",
        "maximum = nan; give a number",
    ),
    "bounds of text": ("type=str, maximum=5", "maximum = 5; leave it out, for type str has no"),
    "a minimum above the maximum": (
        "type=int, minimum=5, maximum=4",
        "maximum = 4; give at least the minimum, 5",
    ),
    "choices as text": ("type=str, choices='ab'", "choices = 'ab'; give a tuple of .* type str"),
    "choices of another type": ("type=int, choices=(1, '2')", "choices = .* of type int only"),
    "a choice beyond the maximum": (
        "type=int, choices=(1, 9), maximum=8",
        r"choices = \(1, 9\); give values of at most 8 only",
    ),
    "a default as text": ("type=int, default='2'", "default = '2'; give a value of type int, or"),
    "a truth value as number": ("type=int, default=True", "default = True; give a value of type"),
    "a number as truth value": ("type=bool, default=0", "default = 0; give a value of type bool"),
    "a fraction": ("type=int, default=1.5", "default = 1.5; give a value of type int"),
    "an endless default": ("type=float, default=float('inf')", "default = inf; .* finite"),
    "a default below the minimum": (
        "type=int, default=0, minimum=1, maximum=4",
        "default = 0; give a value of at least 1 and of at most 4, or None for unset",
    ),
    "a default above the maximum": ("type=float, default=2, maximum=1.0", "default = 2; .* most 1"),
    "a default that is no choice": (
        "type=str, default='c', choices=('a', 'b')",
        r"default = 'c'; give one of the choices, \('a', 'b'\)",
    ),
}
RIGHT = (
    "type=int, default=2, minimum=1, maximum=2.5",
    "type=int, unit='bytes', minimum=-1",
    "type=float, default=2, minimum=0",
    "type=float, minimum=float('-inf')",
    "type=bool, default=False",
    "type=bool, choices=[True]",
    "type=str, default='', choices=('', 'a')",
    "type=str, flag='XLA_FLAGS --xla_some_number', help='A number.'",
)


def spec(fields):
    name = "" if fields.startswith("name=") else "name='num_parts', "
    return f"(OptionSpec({name}{fields}),)"


@pytest.mark.parametrize("what", BREACHES)
def test_an_option_that_is_declared_wrongly(plugins, what):
    fields, words = BREACHES[what]
    plugins.add("one", options=spec(fields))
    with pytest.raises(PluginContractError, match=words) as caught:
        PluginRegistry(plugins.refs).load(plugins.ref("one"))
    error = caught.value
    assert "plugin fake-one 1.0 breaks the plugin contract: its option " in error.message
    assert f"{error.field} = " in error.message
    assert repr(error.option) in error.message
    assert (error.plugin, error.platform) == ("fake-one", "one")


@pytest.mark.parametrize("fields", RIGHT)
def test_an_option_that_is_declared_rightly(plugins, fields):
    plugins.add("one", options=spec(fields))
    assert PluginRegistry(plugins.refs).load(plugins.ref("one")).client_factory() is not None


def test_two_options_of_one_name_in_one_record(plugins):
    one, two = (f"OptionSpec(name='num_parts', type={kind})" for kind in ("int", "str"))
    plugins.add("one", options=f"({one}, {two})")
    plugins.add("same", options=f"({one}, {one})")
    registry = PluginRegistry(plugins.refs)
    with pytest.raises(PluginContractError, match="declares option 'num_parts' twice, differently"):
        registry.load(plugins.ref("one"))
    assert registry.candidate(plugins.ref("same")).state == Available("simulated")


def test_reports_and_the_kit_see_it(plugins, tmp_path):
    plugins.add("one", options=spec("type=int, minimum='1'"))
    words = "its option 'num_parts' is declared with minimum = '1'; give a number"
    with plugins.runtime() as runtime:
        report = diagnose(runtime=runtime, root=tmp_path)
    (row,) = report.plugins
    assert (row.state, words in row.reason) == ("broken", True)
    (found,) = (each for each in report.findings if each.code == "plugin-contract")
    assert words in found.message
    (result,) = conform("one", "load", cases=["load.hooks_return_records"]).results
    assert result.status is Status.FAILED
    assert words in result.came
