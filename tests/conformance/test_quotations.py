"""What cases of the conformance kit quote as the contract stands in it, word for word.

A vendor whose backend fails a case looks the sentence up: in the docstring of the name before the
colon, or, where that is no name of devrt, in the pages for backend authors.
"""

import inspect
import re
from pathlib import Path

import pytest

from devrt import contract, dtypes, errors, records
from devrt.testing.conformance import all_cases

PAGES = Path(__file__).resolve().parents[2] / "docs" / "backend-authors"
CONTRACTS = sorted({case.contract for case in all_cases()})


def words(text):
    return " ".join(re.findall(r"\w+", text.lower().replace("devrt.errors.", "")))


def named(name):
    """Return what a dotted name stands for, and its class; None where there is no such name."""
    first, _, member = name.partition(".")
    for module in (contract, records):
        if owner := getattr(module, first, None):
            return getattr(owner, member, owner), owner
    module = {"errors": errors, "dtypes": dtypes}.get(first)
    found = getattr(module, member, None) if member else None
    return found and (found, found)


def text_of(name):
    """Return what the contract says under a name."""
    found, owner = named(name) or (None, None)
    if found is None:
        pages = set(PAGES.glob("*.md")) - {PAGES / "conformance-cases.md"}  # which shows quotations
        return "\n".join(page.read_text(encoding="utf-8") for page in sorted(pages))
    has_own = inspect.isroutine(found) or isinstance(found, property)
    # What is an attribute, or the value of an enumeration, is described in its class.
    return (inspect.getdoc(found) if has_own else None) or inspect.getsource(owner)


def quotations(cited):
    """Yield each name with what is quoted of it; ``""`` with what is a name alone."""
    name = ""
    for part in re.split(r"[;.] ", cited):
        match = re.fullmatch(r"([\w.]+): (.*)", part)
        if match and (named(match[1]) or not name):
            name, part = match.groups()
        elif named(re.match(r"[\w.]*", part)[0]):
            assert ":" not in part, part
            continue
        yield name, part.removeprefix("raises ")


@pytest.mark.parametrize("cited", CONTRACTS)
def test_what_is_quoted_stands_in_the_contract(cited):
    missing = [
        f"{name}: {quoted}"
        for name, quoted in quotations(cited)
        if words(quoted) not in words(text_of(name))
    ]
    assert missing == []
