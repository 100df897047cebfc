"""One word for one thing: the words that the project does not use, and what it writes instead.

A word is found alone and as a part of an identifier in any spelling. What plain English needs as
well is a phrase, narrow enough to pass plain English over.
"""

import re

import pytest

INSTEAD = {
    "room rooms": "package, module; free memory, 'out of memory: cannot allocate'; reservation",
    "scratch": "temporary memory",
    "grave graveyard bury buried": "deferred release, release queue",
    "seal seals sealed sealing": "checksum, verified",
    "survey surveys surveyed": "snapshot (of a client), report or examination (of the doctor)",
    "rehearse rehearsed rehearsal": "preflight",
    "mend mends mended mending": "fix",
    "stranger strangers": "third-party backend",
    "hostile attack attacks attacked odd": "robustness; unusual, uneven",
    "heavy explore": "stress, fuzz; slow",
    "said told asked": "given, requested, reported",
    "whoever": "the waiter, the caller",
}
RIGHT = {word: right for words, right in INSTEAD.items() for word in words.split()}
"""Words in lower case, and what to write instead."""

PHRASES = {
    r"\bown[ _]words\b": "plugin findings",
    r"\b[Ll]et(?:s|ting)?[ _](?:\w+[ _])?go\b": "releases",
    r"\bgo(?:es)? past\b": "overtakes, bypasses",
    r"\bgo(?:es)? with (?:it|them|the last|its|their)\b": "is destroyed with",
    r"\b[Ww]ho waits\b": "the waiter",
    r"\bke(?:ep|eps|pt) on disk\b": "disk cache",
    r"\bon (?:its|their) way\b": "in flight; temporary memory",
    r"\bturn\b(?=[\]).,=%]| [=%*])|\bTurn\b(?= \w+[;,=)]|[&(;{:])": "slot, step",
    r"\bat its place\b|\bplace_of\b": "index, position, location",
    r"(?<![/\"'])\bsites? (?:of|that|where)\b": "call site",
}
"""Phrases, and what to write instead."""

PLAIN = (
    r"mnt\|scratch\)|\bin turn\b|\b(?:in|one after the other in) turn[.,)]"
    r"|call sites? |allocation sites? |reflect_type=.odd."
)
"""What a pattern would find and may: it is taken out of a line first."""

ELSEWHERE = ("LICENSE", "bench/results/", "tests/repo/test_words.py")
"""Ends and beginnings of paths whose words are not the project's, and this list itself."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def wrong_words(line):
    """Yield what a line should not say, and what it should."""
    line = re.sub(PLAIN, "", line)
    for word in _WORD.findall(line):
        if right := RIGHT.get(word.lower()):
            yield word, right
    for phrase, right in PHRASES.items():
        for found in re.finditer(phrase, line):
            yield found.group().strip(), right


def word_findings(path, text):
    """Return the lines of a file, and its name, that use a word which the project does not."""
    if path.startswith(ELSEWHERE) or path.endswith(ELSEWHERE):
        return []
    return [
        f"{path}:{number}: says {wrong!r}; write: {right}"
        for number, line in enumerate([path, *text.splitlines()])
        for wrong, right in dict(wrong_words(line)).items()
    ]


def test_the_words_are_the_fields(checkout):
    assert not (found := checkout.report(word_findings)), found


@pytest.mark.parametrize(
    "line",
    [
        "there is no room for it",
        "raise_no_room(bytes)",
        "class ScratchUse:",
        "drain_graveyard()",
        "Mend the file.",
        "the library asked for",
        "said = run()",
        "def test_a_child_is_told(): ...",
        "the last one lets go of it",
        "it is let go here",
        "Turn turn;",
        "for turn in range(3): f(turn % 2)",
        "the target at its place",
        "what is kept on disk",
        "a HOSTILE plugin",
    ],
)
def test_a_wrong_word_is_reported(line):
    assert word_findings("x.py", f"\n{line}\n")[0].startswith("x.py:2: says ")


def test_a_wrong_word_in_a_files_name_is_reported():
    assert word_findings("native/graveyard.hpp", "")


@pytest.mark.parametrize(
    "line",
    [
        "device_put places an array",
        "the devices in turn",
        "turn the option off",
        "it takes the place of another",
        "in place",
        "mushroom, bathrooms",
        "ask the plugin",
        "a tell-tale",
        "amend, recommend",
        "an oddity",
        "the call site that holds the most",
        "site-packages",
    ],
)
def test_plain_english_is_not(line):
    assert word_findings("x.py", line) == []
