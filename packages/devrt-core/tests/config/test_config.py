"""Options: their layers, where a value comes from, and what is refused."""

import concurrent.futures
import contextvars
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt._config.layers import CORE_OPTIONS, Config
from devrt.errors import ConfigError
from devrt.records import OptionSpec

SPECS = (
    OptionSpec(name="num_things", type=int, default=3, minimum=1),
    OptionSpec(name="fraction", type=float),
    OptionSpec(name="verbose", type=bool, default=False),
    OptionSpec(name="label", type=str),
)


def make(**environ):
    config = Config(environ)
    for spec in SPECS:
        config.define(spec)
    return config


def origin(config, name):
    setting = config.setting(name)
    return setting.value, setting.origin, setting.detail


def test_each_layer_covers_the_one_below_and_says_so():
    config = make(DEVRT_NUM_THINGS="5")
    assert origin(make(), "num_things") == (3, "default", "")
    assert origin(config, "num_things") == (5, "environment", "DEVRT_NUM_THINGS")
    config.update("num_things", 7)
    assert origin(config, "num_things") == (7, "code", "")
    with config.override(num_things=9):
        assert origin(config, "num_things") == (9, "context", "")
    assert origin(config, "num_things") == (7, "code", "")


def test_the_own_variable_comes_before_the_jax_spelling():
    both = make(DEVRT_NUM_THINGS="5", JAX_NUM_THINGS="6")
    assert origin(both, "num_things") == (5, "environment", "DEVRT_NUM_THINGS")
    assert origin(make(JAX_NUM_THINGS="6"), "num_things") == (6, "environment", "JAX_NUM_THINGS")
    assert origin(make(DEVRT_NUM_THINGS="", JAX_NUM_THINGS=""), "num_things")[1] == "default"


FLAG = "--other_number_of_parts"


def flagged(**environ):
    config = Config(environ)
    spec = OptionSpec(name="num_parts", type=int, default=1, minimum=1, flag=f"OTHER_FLAGS {FLAG}")
    config.define(spec)
    return config


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        (f"{FLAG}=4", 4),
        (f"--fast {FLAG}=4\t--slow=no", 4),
        (f"{FLAG}=4 {FLAG}=5", 5),  # as the library that they belong to reads them
        (f"{FLAG}", None),
        (f"{FLAG}s=4", None),
        (f"x{FLAG}=4", None),
        ("", None),
        ("/no/such/file", None),
    ],
)
def test_a_flag_of_another_library_sets_an_option(flags, value):
    known = (value, "environment", "OTHER_FLAGS") if value else (1, "default", "")
    assert origin(flagged(OTHER_FLAGS=flags), "num_parts") == known


def test_flags_may_stand_in_a_file(tmp_path):
    path = tmp_path / "flags"
    path.write_text(f"--fast\n{FLAG}=4\n")
    assert flagged(OTHER_FLAGS=str(path)).read("num_parts") == 4


def test_a_flag_is_weaker_than_the_options_own_variables():
    for variable in ("DEVRT_NUM_PARTS", "JAX_NUM_PARTS"):
        config = flagged(OTHER_FLAGS=f"{FLAG}=4", **{variable: "2"})
        assert origin(config, "num_parts") == (2, "environment", variable)


@pytest.mark.parametrize("value", ["", "four", "0", "1.5", "1_000"])
def test_a_flag_that_does_not_fit_is_named(value):
    with pytest.raises(ConfigError) as caught:
        flagged(OTHER_FLAGS=f"{FLAG}={value}").read("num_parts")
    assert f"environment variable OTHER_FLAGS ({FLAG})" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("variable", ["DEVRT_PLATFORMS", "JAX_PLATFORMS"])
def test_platforms_from_the_environment(variable):
    assert origin(make(**{variable: "cpu"}), "platforms") == ("cpu", "environment", variable)


@pytest.mark.parametrize("name", ["platforms", "platform_name", "default_device", "num_things"])
def test_jax_spellings_name_the_same_option(name):
    config = make()
    value = 4 if name == "num_things" else "acme"
    config.update(f"jax_{name}", value)
    assert config.read(name) == config.read(f"jax_{name}") == value
    assert getattr(config, name) == getattr(config, f"jax_{name}") == value
    with config.override(**{f"jax_{name}": 8 if name == "num_things" else "cpu"}):
        assert config.read(name) in (8, "cpu")


class _OtherDevice:
    client = platform = id = None


_OtherDevice.__module__ = "jaxlib._jax"


@pytest.mark.parametrize("value", [3, True, ["cpu"], 1.5, _OtherDevice()])
def test_what_is_no_default_device_is_refused_when_it_is_set(value):
    with pytest.raises(ConfigError, match=r"takes a device of devrt.devices\(\), a platform"):
        make().update("default_device", value)


def test_the_default_device_may_come_from_the_environment():
    assert make(DEVRT_DEFAULT_DEVICE="acme").default_device == "acme"


def test_the_environment_is_read_once():
    environ = {"DEVRT_NUM_THINGS": "5"}
    config = Config(environ)
    config.define(SPECS[0])
    assert config.num_things == 5
    environ["DEVRT_NUM_THINGS"] = "6"
    assert config.num_things == 5
    config.thaw()
    assert config.num_things == 6


def test_assigning_is_updating():
    config = make()
    config.num_things = 4
    assert origin(config, "num_things") == (4, "code", "")
    with pytest.raises(ConfigError, match=r"no option 'num_thing'.*'num_things'"):
        config.num_thing = 4


@pytest.mark.parametrize("ask", ["read", "setting", "spec"])
def test_an_unknown_name_suggests_the_nearest(ask):
    with pytest.raises(ConfigError, match="Did you mean 'num_things'") as caught:
        getattr(make(), ask)("jax_num_thing")
    assert caught.value.option == "jax_num_thing"
    assert str(caught.value).endswith("? `devrt config` lists the options.")


def test_a_name_like_no_other_gets_the_list_only():
    with pytest.raises(
        ConfigError, match=r"no option 'zzz'\. Options:\n  allow_experimental\n"
    ) as caught:
        make().update("zzz", 1)
    assert "mean" not in str(caught.value)


def test_an_unknown_attribute_is_an_attribute_error_with_the_same_words():
    with pytest.raises(AttributeError, match="Did you mean 'platforms'"):
        _ = make().platform_s
    assert not hasattr(make(), "_repr_html_")


def test_unknown_names_are_looked_for_before_they_are_refused():
    config = Config({"DEVRT_LATE": "5"})
    calls = []

    def find_more():
        calls.append(1)
        config.define(OptionSpec(name="late", type=int))

    config.when_unknown(find_more)
    assert config.platforms is None
    assert calls == []
    assert config.late == 5
    assert calls == [1]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num_things", 4, 4),
        ("num_things", "4", 4),
        ("num_things", 4.0, 4),
        ("num_things", np.uint8(4), 4),
        ("fraction", 1, 1.0),
        ("fraction", "0.5", 0.5),
        ("fraction", None, None),
        ("label", "x", "x"),
        ("verbose", True, True),
        ("verbose", 0, False),
        *[("verbose", word, True) for word in ("1", "true", "YES", " on ")],
        *[("verbose", word, False) for word in ("0", "false", "No", "off")],
    ],
)
def test_values_that_fit(name, value, expected):
    config = make()
    config.update(name, value)
    assert config.read(name) == expected
    assert type(config.read(name)) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("num_things", "many", "a whole number"),
        ("num_things", 4.5, "a whole number"),
        ("num_things", True, "a whole number"),
        ("num_things", None, "a whole number"),
        ("num_things", [4], "a whole number"),
        ("num_things", float("inf"), "a whole number"),
        ("num_things", Fraction(5, 2), "a whole number"),
        ("num_things", 0, "at least 1"),
        ("fraction", "half", "a number"),
        ("fraction", "nan", "a number"),
        ("verbose", "maybe", "true or false"),
        ("verbose", 2, "true or false"),
        ("verbose", None, "true or false"),
        ("label", 5, "text"),
        ("platforms", ["cpu"], "text"),
    ],
)
def test_values_that_do_not_fit_change_nothing(name, value, accepted):
    config = make()
    before = config.setting(name)
    pattern = rf"config\.update\('{name}', \.\.\.\).*{name}.*{accepted}"
    with pytest.raises(ConfigError, match=pattern) as caught:
        config.update(name, value)
    assert caught.value.option == name
    assert isinstance(caught.value, ValueError)
    assert config.setting(name) == before
    override = config.override(**{name: value})
    with pytest.raises(ConfigError, match=accepted), override:
        pass


@pytest.mark.parametrize("text", ["many", "0", "-1", "1e3", "3 things", "1_0"])
@pytest.mark.parametrize("variable", ["DEVRT_NUM_THINGS", "JAX_NUM_THINGS"])
def test_a_bad_variable_is_named_whenever_the_option_is_read(variable, text):
    config = make(**{variable: text})
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"environment variable {variable}.*num_things"):
            config.read("num_things")
    config.update("num_things", 2)
    assert config.num_things == 2


@given(st.text())
def test_any_variable_is_read_or_refused_with_a_typed_error(text):
    for spec in SPECS:
        config = make(**{f"DEVRT_{spec.name.upper()}": text})
        try:
            value = config.read(spec.name)
        except ConfigError as error:
            assert error.option == spec.name  # noqa: PT017  either answer is right
        else:
            assert value == spec.default or isinstance(value, spec.type)


def test_overrides_nest_and_end_with_an_error_too():
    config = make()
    with config.override(num_things=4, label="outer"):
        with config.override(num_things=5):
            assert (config.num_things, config.label) == (5, "outer")
        assert config.overridden
        with pytest.raises(KeyError), config.override(num_things=6):
            raise KeyError
        assert config.num_things == 4
    assert (config.num_things, config.label, config.overridden) == (3, None, False)


def test_overrides_belong_to_their_thread():
    config = make()
    inside, leave = threading.Event(), threading.Event()

    def elsewhere():
        with config.override(num_things=9):
            inside.set()
            leave.wait(60)
            return config.num_things

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(elsewhere)
        assert inside.wait(60)
        assert (config.num_things, config.overridden) == (3, False)
        leave.set()
        assert answer.result(60) == 9


def test_overrides_follow_a_copied_context():
    config = make()
    with config.override(num_things=9):
        context = contextvars.copy_context()
    assert context.run(config.read, "num_things") == 9
    assert config.num_things == 3


def test_a_frozen_option_names_what_froze_it():
    config = make()
    config.update("num_things", 5)
    config.freeze(("num_things",), "the acme client")
    config.update("num_things", "5")
    with config.override(num_things=5):
        pass
    pattern = "cannot become 6 any more: the acme client was made with 5.*clear_backends"
    with pytest.raises(ConfigError, match=pattern) as caught:
        config.update("num_things", 6)
    assert (caught.value.frozen_by, caught.value.option) == ("the acme client", "num_things")
    override = config.override(num_things=6)
    with pytest.raises(ConfigError, match=pattern), override:
        pass
    config.update("label", "others are free")
    assert config.num_things == 5
    config.thaw()
    config.update("num_things", 6)
    assert config.num_things == 6


def test_freezing_keeps_the_value_in_force_at_that_moment():
    config = make()
    with config.override(num_things=8):
        config.freeze(("num_things",), "the acme client")
    with pytest.raises(ConfigError, match="was made with 8"):
        config.update("num_things", 3)
    config.update("num_things", 8)


def test_the_generation_grows_with_changes_outside_of_overrides():
    config = make()
    first = config.generation
    with config.override(num_things=9):
        assert config.generation == first
    config.update("num_things", 4)
    assert config.generation > first
    second = config.generation
    config.thaw()
    assert config.generation > second


def test_an_option_is_declared_once_or_twice_alike():
    config = make()
    config.define(OptionSpec(name="label", type=str))
    with pytest.raises(ConfigError, match="'label' is declared twice") as caught:
        config.define(OptionSpec(name="label", type=int))
    assert caught.value.option == "label"
    assert config.spec("label").type is str


def test_two_options_of_one_name_in_one_call_are_refused_and_neither_is_known():
    config = Config()
    one, two = (OptionSpec(name="num_parts", type=kind, help="How many.") for kind in (int, str))
    with pytest.raises(ConfigError, match="'num_parts' is declared twice"):
        config.define(one, two)
    with pytest.raises(ConfigError):
        config.spec("num_parts")
    config.define(two)
    assert config.spec("num_parts") == two


def test_names_are_sorted_and_complete():
    assert make().names() == tuple(sorted(spec.name for spec in (*CORE_OPTIONS, *SPECS)))
