"""Drawings: text, rich tables and SVG."""

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

from devrt.errors import InvalidArgumentError
from devrt.sharding import (
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    render_sharding,
    sharding_svg,
    sharding_table,
    visualize_sharding,
)

FOUR_BY_TWO = """\
┌───────────┬───────────┐
│   fake:0  │   fake:1  │
├───────────┼───────────┤
│   fake:2  │   fake:3  │
├───────────┼───────────┤
│   fake:4  │   fake:5  │
├───────────┼───────────┤
│   fake:6  │   fake:7  │
└───────────┴───────────┘"""

LINE = """\
┌──────────┬──────────┬──────────┬──────────┐
│ fake:0,1 │ fake:2,3 │ fake:4,5 │ fake:6,7 │
└──────────┴──────────┴──────────┴──────────┘"""


@pytest.fixture
def mesh(devices):
    return Mesh(np.array(devices[:8], dtype=object).reshape(4, 2), ("x", "y"))


def test_two_dimensions(mesh):
    assert render_sharding((8, 8), NamedSharding(mesh, P("x", "y"))) == FOUR_BY_TWO


def test_one_dimension_lies_across(mesh):
    assert render_sharding((8,), NamedSharding(mesh, P("x"))) == LINE


@pytest.mark.parametrize("shape", [(), (0,), (3,), (4, 4)])
def test_one_box(devices, shape):
    text = render_sharding(shape, SingleDeviceSharding(devices[0]))
    assert text.count("fake:0") == 1
    assert text.count("┌") == text.count("┘") == 1


@pytest.mark.parametrize("max_width", [8, 20, 40, 80])
@pytest.mark.parametrize("spec", [P(), P("x"), P(None, "y"), P("y", "x"), P(None, ("x", "y"))])
def test_width_is_kept_and_lines_are_even(mesh, spec, max_width):
    lines = render_sharding((16, 64), NamedSharding(mesh, spec), max_width=max_width).splitlines()
    assert len(set(map(len, lines))) == 1
    columns = lines[0].count("┬") + 1
    assert len(lines[0]) <= max(max_width, columns * (len("fake:0,") + 1) + 1)


def test_all_replicas_are_named_even_in_little_space(mesh):
    text = render_sharding((4, 4), NamedSharding(mesh, P()), max_width=12)
    assert "".join(text.translate({ord(c): None for c in "┌┐└┘│─ \n"})) == "fake:0,1,2,3,4,5,6,7"


def test_more_dimensions_must_be_chosen(mesh):
    sharding = NamedSharding(mesh, P("x", None, "y"))
    with pytest.raises(InvalidArgumentError, match=r"3 dimensions.*dims=\(0, 1\)"):
        render_sharding((8, 8, 8), sharding)
    assert render_sharding((8, 8, 8), sharding, dims=(0, -1)) == FOUR_BY_TWO
    assert render_sharding((8, 8, 8), sharding, dims=(0,)) == LINE


@pytest.mark.parametrize("dims", [(), (0, 0), (0, 2), (0, 1, 2), (-3,)])
def test_wrong_dims(mesh, dims):
    with pytest.raises(InvalidArgumentError, match="does not name one or two"):
        render_sharding((8, 8), NamedSharding(mesh, P()), dims=dims)


def test_shapes_that_do_not_divide(mesh):
    with pytest.raises(InvalidArgumentError, match="does not divide"):
        render_sharding((7, 8), NamedSharding(mesh, P("x")))


def test_written_plain_where_there_is_no_terminal(mesh, capsys):
    visualize_sharding((8, 8), NamedSharding(mesh, P("x", "y")))
    assert capsys.readouterr().out == FOUR_BY_TWO + "\n"


def test_written_in_colour_on_a_terminal(mesh, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name, value in {"TERM": "xterm-256color", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    sharding = NamedSharding(mesh, P("x", "y"))
    monkeypatch.setattr("sys.stdout", Terminal())
    visualize_sharding((8, 8), sharding)
    import sys

    assert "\x1b[" in sys.stdout.getvalue()
    assert "fake:7" in sys.stdout.getvalue()
    monkeypatch.setattr("sys.stdout", Terminal())
    visualize_sharding((8, 8), sharding, use_color=False)
    assert sys.stdout.getvalue() == FOUR_BY_TWO + "\n"


def test_the_table_is_the_drawing(mesh):
    console = Console(file=io.StringIO(), width=100)
    console.print(sharding_table((8, 8), NamedSharding(mesh, P("x", "y")), use_color=False))
    assert console.file.getvalue().strip() == FOUR_BY_TWO


def test_svg(mesh):
    root = ET.fromstring(sharding_svg((8, 16), NamedSharding(mesh, P("x", "y"))))
    ns = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f".//{ns}rect")) == 8
    assert [text.text for text in root.findall(f".//{ns}text")] == [f"fake:{n}" for n in range(8)]
    assert root.find(f"{ns}g/{ns}title").text == "[0:2, 0:8]"
    replicated = ET.fromstring(sharding_svg((2, 128), NamedSharding(mesh, P())))
    shown = "".join(text.text for text in replicated.findall(f".//{ns}text"))
    assert shown == "fake:0,1,2,3,4,5,6,7"
    assert replicated.find(f"{ns}title").text.startswith("shape (2, 128), NamedSharding(mesh=")


def test_devices_with_names_of_their_own(make_client):
    class Named(type(make_client().devices()[0])):
        def __str__(self):
            return f"<{'abcdefgh'[self.id]}>"

    devices = make_client(device_type=Named).devices()
    text = render_sharding((8,), NamedSharding(Mesh(devices[:2], "x"), P()))
    assert "<a>,<b>" in text
    assert "&lt;a&gt;" in sharding_svg((8,), SingleDeviceSharding(devices[0]))
