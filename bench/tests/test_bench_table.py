import json

import pytest

from bench import machine, store
from bench.case import Sweep
from bench.figures import Figure
from bench.rows import Outcome, Row
from bench.table import format_quantity, render


def cost(median):
    return Outcome(Figure(median, median, median, 3))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.234e-6, "s", "1.23 us"),
        (36e-3, "s", "36.0 ms"),
        (123e-9, "s", "123 ns"),
        (-2e-3, "s", "-2.00 ms"),
        (0, "s", "0 s"),
        (8, "B", "8 B"),
        (64 << 20, "B", "64 MiB"),
        (1.5 * 2**20, "B", "1.50 MiB"),
        (8, "device", "8 devices"),
        (1, "device", "1 device"),
    ],
)
def test_quantities_are_written_with_three_digits(value, unit, text):
    assert format_quantity(value, unit) == text


def test_a_case_is_one_line():
    text = render([Row("put", "8 floats", "jax 1.0", cost(2e-6), cost(18e-6))])
    head, _, line = text.splitlines()
    assert head.split() == ["case", "devrt", "peer", "ratio", "which", "peer"]
    assert line.split("  ")[0] == "put: 8 floats"
    assert line.split()[3:] == ["2.00", "us", "18.0", "us", "0.11", "jax", "1.0"]


def test_a_missing_figure_keeps_its_row_and_says_why_once():
    gone = Outcome(reason="jax: ModuleNotFoundError: No module named 'jax'")
    rows = [Row("put", name, "jax", cost(1e-6), gone) for name in ("a", "b")]
    lines = render(rows).splitlines()
    assert lines[2].split()[1:] == ["a", "1.00", "us", "[1]", "-", "jax"]
    assert lines[3].split()[1:] == ["b", "1.00", "us", "[1]", "-", "jax"]
    assert lines[-1] == f"[1] {gone.reason}"


def test_a_sweep_is_a_table_that_ends_with_its_growth():
    rows = [
        Row("put", f"at {n}", "jax 1.0", cost(1e-9 * n), cost(2e-9), sweep=Sweep("bytes", "B", n))
        for n in (64, 1024)
    ]
    lines = render(rows).splitlines()
    assert lines[0].startswith("put: bytes")
    assert lines[2].split() == ["64", "B", "64.0", "ns", "2.00", "ns", "32.00"]
    assert lines[-2].split() == ["per", "B", "1.00", "ns", "0", "s"]
    assert lines[-1].split() == ["exponent", "1.00", "(tail", "1.00)", "0.00", "(tail", "0.00)"]


def test_a_bar_stands_beside_the_ratio_and_the_last_line_counts_them():
    def row(devrt, peer, bar):
        return Row("gpu", "put", "jax", devrt, peer, bar=bar)

    gone = Outcome(reason="no jax")
    given = [(1.0, 1.0, 1.0), (1.06, 1.0, 1.05), (1.1, 1.0, None)]
    rows = [row(cost(devrt), cost(peer), bar) for devrt, peer, bar in given]
    lines = render([*rows, row(cost(1.0), gone, 1.0)]).splitlines()
    assert "1.000 <= 1.000" in lines[2]
    assert "1.060 > 1.050" in lines[3]
    assert lines[4].split()[-2:] == ["1.10", "jax"]
    assert lines[5].split()[-2:] == ["-", "jax"]
    assert lines[-1] == "bars: 1 kept, 1 missed, 1 without a figure"


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("Intel(R) Xeon(R) Processor @ 2.50GHz", "intel-xeon-2p50ghz-4-cores"),
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763-64-core-4-cores"),
    ],
)
def test_a_machine_is_named_by_its_processor_and_cores(model, slug):
    assert machine.slug(model, 4) == slug


def test_a_partial_run_keeps_the_other_subjects_and_their_dates(tmp_path):
    path = tmp_path / "machine.json"
    row = Row("put", "8 floats", "jax", cost(1.0), cost(2.0))
    old = store.section([row], "2020-01-01", (0, 0, 0), {})
    store.write(path, {"cores": 2}, {"put": old, "copy": old})
    store.write(path, {"cores": 2}, {"put": store.section([row], "2021-01-01", (1, 0, 0), {})})
    subjects = json.loads(path.read_text())["subjects"]
    assert subjects["copy"]["date"] == "2020-01-01"
    assert subjects["put"]["date"] == "2021-01-01"
    assert subjects["put"]["rows"][0]["ratio"] == 0.5
    assert subjects["put"]["rows"][0]["devrt"]["figure"]["blocks"] == 3
