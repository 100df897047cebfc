"""The reader of plain TOML: what the standard library's reader says, or nothing."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import devrt
from devrt._support import simple_toml

PIECES = st.sampled_from(
    [
        *(
            "schema = 1",
            "[[backend]]",
            "[[backend.requires]]",
            "[[other]]",
            "[backend]",
            "[[a.b.c]]",
        ),
        *('platform = "cpu"', "a = true", "a = false", "b = 0x1ae0", "c = 1.5", "c = -7", "d = 01"),
        *(
            'e = ["a", "b"]',
            "e = []",
            'e = ["a",]',
            "e = [1]",
            'f = "\\n"',
            'f = """x"""',
            "g = 'x'",
        ),
        *(
            "# text",
            'h = "#" # tail',
            "backend = 5",
            "backend = []",
            "x.y = 1",
            '"k" = 1',
            "k = inf",
        ),
        *("n = 1_000", "t = 2020-01-01", "m = {}", "  z = 1  ", "\tw = 1", "", "=", "q =", "é = 1"),
        *('u = "é\t"', 'v = "\x7f"', "r = 1e5", "s = +1", "-- = 1", "1 = 2", "o = -0", "p = 1.0e3"),
    ]
)


@given(st.lists(PIECES, max_size=8), st.sampled_from(["\n", "\n\n", "\r\n", " "]))
@example(["[[backend]]", "requires = []", "[[backend.requires]]"], "\n")
@example(['v = "\x7f"'], "\n")
@example(["[[backend]]", "a = true", "[[backend]]", "a = true"], "\n")
def test_it_says_what_tomllib_says_or_nothing(lines, newline):
    text = newline.join(lines)
    found = simple_toml.parse(text)
    if found is not None:
        assert found == tomllib.loads(text)


@given(st.text(alphabet='a1=[]".,# \n\t\\-_x\r\0', max_size=40))
def test_any_text(text):
    found = simple_toml.parse(text)
    if found is not None:
        expected = tomllib.loads(text)
        assert found == expected
        assert repr(found) == repr(expected), "1 and True are equal, and not the same"


PACKAGES = Path(devrt.__file__).parents[3]


@pytest.mark.parametrize(
    "path",
    [
        *PACKAGES.glob("*/src/*/devrt.toml"),
        *PACKAGES.glob("*/src/devrt/plugins/discovery/data/wheels.toml"),
    ],
    ids=lambda path: path.parent.name,
)
def test_our_own_manifests_are_plain(path):
    text = path.read_text(encoding="utf-8")
    assert simple_toml.parse(text) == tomllib.loads(text)


def test_the_known_wheels_agree_with_the_table_of_hardware():
    from devrt.plugins.discovery.accelerators import known_hardware
    from devrt.plugins.discovery.known import platform_with_option, wheels_for

    for row in known_hardware():
        assert row["wheel"] in {wheel for name in row["platforms"] for wheel in wheels_for(name)}
    assert wheels_for("cpu") == ("devrt-cpu",)
    assert wheels_for("gpu") == ("devrt-cuda",)  # the other wheel has no client yet
    assert wheels_for("xla_cpu_pjrt") == ("xla-cpu-pjrt",)
    assert wheels_for("nonsense") == ()
    assert platform_with_option("num_cpu_devices") == ("cpu", "devrt-cpu")
