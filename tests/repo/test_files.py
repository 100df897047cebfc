"""What no file of the project holds, and how long a source file may be."""

import re

import pytest

LIMIT = 400
"""Lines of a source file; past it the file has more than one subject."""

LONGER = {}
"""Files that may be longer, each with its own limit. Empty, and meant to stay so."""

SOURCES = (".py", ".cpp", ".hpp", ".h", ".c", ".cc", ".cu")

# Each pattern is written so that it does not find itself.
FORBIDDEN = {
    "a path of one machine": re.compile(
        r"""(?<![\w.$})*/-])/(?:work|root|tmp|home|Users|mnt|scratch)(?=/[\w.]|["'\s)`]|$)"""
    ),
    "a package registry's host": re.compile(
        r"\b(?:pypi|pythonhosted|anaconda|crates|npmjs|conda-forge)\.(?:org|io|com)\b", re.I
    ),
    "a word on how the project was made": re.compile(
        r"\b(?:clau[d]e|anthropi[c]|chatgp[t]|opena[i]|copilo[t]|gemin[i]|ll[m]s?"
        r"|language[ ]models?|a[i] assistants?|(?:sub-?)?agent[s]? (?:wrote|made|session)"
        r"|this[ ]session|the[ ]brief|seed[ ]documents?|documents?[ ]00\d)\b"
        r"|shared/(?:design|facts|seeds|cases)",
        re.I,
    ),
}


def forbidden_findings(path, text):
    """Return the lines of a file that hold what no file may hold."""
    return [
        f"{path}:{number}: holds {what}: {found.group().strip()!r}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if (found := pattern.search(line))
    ]


def length_findings(path, text):
    """Return whether a source file is longer than it may be."""
    lines, limit = text.count("\n"), LONGER.get(path, LIMIT)
    return [f"{path}:{lines}: has {lines} lines, {limit} is the limit"] if lines > limit else []


def test_no_file_holds_what_none_may(checkout):
    assert not (found := checkout.report(forbidden_findings)), found


def test_source_files_are_short(checkout):
    assert not (found := checkout.report(length_findings, *SOURCES)), found


def test_every_file_with_a_limit_of_its_own_needs_it(checkout):
    lengths = {path: text.count("\n") for path, text in checkout.texts(*SOURCES)}
    assert [path for path in LONGER if lengths.get(path, 0) <= LIMIT] == []


@pytest.mark.parametrize(
    "parts",
    [
        ("cd /", "work/main"),
        ("open('/", "tmp/x')"),
        ("/", "root/.cache"),
        ("HOME=/", "home/someone/x"),
        ("PREFIX = '/", "tmp'"),
        ("https://py", "pi.org/simple"),
        ("files.python", "hosted.org"),
        ("written by Cla", "ude"),
        ("an LL", "M wrote this"),
        ("as docum", "ent 004 says"),
        ("see share", "d/design/x.md"),
    ],
)
def test_a_line_that_holds_it_is_reported(parts):
    assert len(forbidden_findings("x.md", f"\n{''.join(parts)}\n")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "work/main",
        "https://example.org/work/x",
        "$TMPDIR/x",
        "a/tmp/b",
        "the root /",
        "workspace",
        "$(mktemp -d)/home/x",
        "documents 12",
    ],
)
def test_a_line_that_only_looks_like_it_is_not(line):
    assert forbidden_findings("x.md", line) == []


def test_a_long_file_is_reported():
    (found,) = length_findings("x.py", "x\n" * (LIMIT + 1))
    assert found == "x.py:401: has 401 lines, 400 is the limit"
    assert length_findings("x.py", "x\n" * LIMIT) == []
