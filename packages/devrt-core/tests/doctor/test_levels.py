"""How far the doctor goes, and what it cannot know from there."""

import pytest

from devrt.doctor import diagnose


@pytest.fixture
def examine(plugins, tmp_path):
    def run(environ=None, **options):
        with plugins.runtime(**(environ or {})) as runtime:
            return diagnose(runtime=runtime, root=tmp_path, **options)

    return run


def row(report, platform):
    (found,) = [row for row in report.plugins if row.platform == platform]
    return found


def test_a_priority_that_was_not_read_decides_nothing(plugins, examine):
    plugins.add("one")
    plugins.add("two", "raise OSError")
    metadata = examine(level="metadata")
    assert metadata.status == 0
    assert metadata.default == ""
    assert metadata.default_reason.startswith("not known at this level: one@fake-one, two@")
    assert row(metadata, "one").state == row(metadata, "two").state == "eligible"
    assert "priority is not known" in row(metadata, "one").reason
    named = examine({"DEVRT_PLATFORMS": "two"}, level="metadata")
    assert (named.status, named.default) == (0, "two@fake-two")


def test_where_one_backend_is_usable_no_priority_is_needed(plugins, examine):
    plugins.add("one")
    report = examine(level="metadata")
    assert (report.status, report.default) == (0, "one@fake-one")
    assert report.default_reason == "the only one that is available"


@pytest.mark.parametrize("environ", [{}, {"DEVRT_PLATFORMS": "first,thrid"}])
def test_no_client_is_made_to_know_aliases(plugins, examine, tmp_path, environ):
    made = tmp_path / "made"
    touch = f"open({str(made)!r}, 'a').write({{!r}})"
    for name, aliases in (("one", ("first",)), ("two", ())):
        plugins.add(name, aliases=aliases, make=f"{touch.format(name)}; raise OSError('no')")
    requests = {} if environ else {"platforms": "first,thrid"}
    report = examine(environ, **requests)
    assert made.read_text() == "one"
    assert (row(report, "one").level, row(report, "two").level) == ("client", "load")
    assert row(report, "two").state == "excluded"
