"""Tables on a narrow terminal: the column that says most is not squeezed."""

import io

import pytest
from rich.console import Console

from devrt.cli.tables import Output

SENTENCE = "the NVIDIA kernel driver is here, but its library is not, so nothing can use it at all"
WIDE = ("platform", "distribution", "priority", "experimental", "state", "reason")
ROW = ("cuda", "devrt-cuda 0.1.0", "200", "no", "unavailable", SENTENCE)


def raw(width, show):
    file = io.StringIO()
    output = Output()
    output._console = Console(file=file, width=width, force_terminal=True, color_system=None)
    show(output)
    return file.getvalue().splitlines()


def printed(width, headings, rows):
    return [line.rstrip() for line in raw(width, lambda out: out.table(headings, rows))]


def test_what_does_not_fit_beside_its_row_goes_below():
    lines = printed(80, WIDE, [ROW, ROW])
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == [*WIDE[:-1]]
    assert lines[2] == "cuda      devrt-cuda 0.1.0  200       no            unavailable"
    assert lines[3].startswith("    the NVIDIA kernel driver")
    assert " ".join(line.strip() for line in lines[3:5]) == SENTENCE


def test_lines_are_not_padded_with_blanks():
    assert all(line == line.rstrip() for line in raw(80, lambda out: out.table(WIDE, [ROW])))


def test_every_line_of_a_finding_is_indented_and_commands_are_whole():
    command = f"  $ pip install {'./packages/devrt-tpu ' * 5}".rstrip()
    lines = raw(60, lambda out: out.sentences(f"{SENTENCE}\nand more"))
    assert len(lines) == 3
    assert all(line.startswith("  ") and len(line) <= 60 for line in lines)
    assert raw(60, lambda out: out.command(command)) == [command]
    lines = raw(60, lambda out: out.sentences(f"causes:\n  {SENTENCE}"))
    assert [len(line) - len(line.lstrip()) for line in lines] == [2, 4, 4]


def test_it_stays_beside_its_row_where_it_reads_well_there():
    lines = printed(80, ("state", "reason"), [("broken", SENTENCE)])
    assert lines[1].startswith("broken  the NVIDIA")
    assert lines[2].startswith("        ")
    assert max(map(len, lines)) <= 80


def test_a_table_without_sentences_narrows_its_widest_column():
    row = ("cpu:0", "device, pinned_host, unpinned_host, huge_pages", "0 B", "-")
    lines = printed(40, ("device", "memories", "in use", "limit"), [row])
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == ["device", "memories", "in", "use", "limit"]
    assert lines[1].startswith("cpu:0   device")


@pytest.mark.parametrize("width", [120, 200])
def test_a_table_that_fits_is_one_line_a_row(width):
    lines = printed(width, ("state", "reason"), [("broken", SENTENCE)])
    assert lines == ["state   reason", f"broken  {SENTENCE}"]
