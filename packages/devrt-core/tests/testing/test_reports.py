"""Reports: what counts as a pass, what is new between two, and the page."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from devrt.cli import main
from devrt.errors import InvalidArgumentError
from devrt.testing.conformance import CaseResult, Report, Status, compare, page

SUBJECT = {"platform": "one", "distribution": "fake-one", "version": "1.0", "library": ""}


def result(name, status=Status.PASSED, seconds=0.01, **fields):
    level = name.partition(".")[0]
    return CaseResult(
        f"{level}.{name.partition('.')[2]}", "it is so", "Client", status, seconds, **fields
    )


def report(*results):
    return Report(SUBJECT, {"core": "0.1.0"}, results)


GOOD = result("load.a")
BAD = result("load.a", Status.FAILED, expected="2", came="3 <b>", output="last\nwords")
NONE = result("load.a", Status.NOT_APPLICABLE, reason="it compiles nothing")


@pytest.mark.parametrize(
    ("results", "ok", "verdict"),
    [
        ([GOOD], True, "1 case passed"),
        ([GOOD, result("load.b", Status.CRASHED)], False, "1 of 2 cases failed"),
        ([GOOD, result("load.b", Status.TIMED_OUT)], False, "1 of 2 cases failed"),
        ([GOOD, result("memory.b", Status.NOT_APPLICABLE)], True, "1 case passed, 1 are not"),
        ([NONE], False, "no case passed, of 1"),
        ([], False, "no case passed, of 0"),
    ],
)
def test_what_counts_as_a_pass(results, ok, verdict):
    made = report(*results)
    assert made.ok is ok
    assert made.verdict().startswith(verdict)
    assert made.to_dict()["ok"] is ok


def test_cases_that_do_not_apply_are_counted_with_their_reasons():
    made = report(
        GOOD, dataclasses.replace(NONE, id="execute.b"), dataclasses.replace(NONE, id="execute.c")
    )
    assert made.summary()["execute"] == dict.fromkeys(map(str, Status), 0) | {"not_applicable": 2}
    assert made.not_applicable() == {"it compiles nothing": ["execute.b", "execute.c"]}


LEVELS = ("load", "memory", "transfer", "execute", "shard", "distributed")
WHOLE = [result(f"{level}.a") for level in LEVELS]


@pytest.mark.parametrize(
    ("results", "reasons"),
    [
        (WHOLE, []),
        ([BAD, *WHOLE[1:]], ["load.a failed"]),
        (WHOLE[:-1], ["no case of level distributed was run"]),
        ([*WHOLE[:-1], dataclasses.replace(NONE, id="distributed.a")], []),
    ],
)
def test_what_speaks_for_calling_a_backend_experimental(results, reasons):
    made = report(*results)
    assert made.experimental_because() == reasons
    assert made.to_dict()["experimental_because"] == reasons
    absent = Report({**SUBJECT, "problem": "no card"}, {}, tuple(WHOLE))
    assert absent.experimental_because() == ["its client cannot be made here: no card"]


OF_EACH_LEVEL = (
    "load.local_devices_are_among_them",
    "memory.clone_is_the_same_allocation",
    "transfer.scalars_become_arrays",
    "execute.closed_client_runs_nothing",
    "shard.blocks_without_alias",
    "distributed.devices_of_all_processes",
)
MISCOUNTS = "AcmeClient.local_device_count = lambda self: 7"


@pytest.mark.parametrize(
    ("experimental", "fault", "words"),
    [
        (False, f"{MISCOUNTS}\n    ", "It does not say that it is experimental. This report does"),
        (True, "", "It says that it is experimental, and nothing in this report does"),
        (False, "", ""),
    ],
)
def test_the_command_says_where_manifest_and_report_differ(plugins, experimental, fault, words):
    plugins.add("one", experimental=experimental, make=f"{fault}return AcmeClient(2)")
    chosen = [f"--case={name}" for name in OF_EACH_LEVEL]
    done = CliRunner().invoke(main, ["conform", "one", *chosen])
    assert words in done.stdout
    assert ("experimental" in done.stdout) is bool(words)
    assert "no case of level distributed applies" in done.stdout
    of_some = CliRunner().invoke(main, ["conform", "one", chosen[0]])
    assert "experimental" not in of_some.stdout


def ids(changes):
    return [change.id for change in changes]


def test_what_is_new_between_two_reports():
    before = report(GOOD, result("load.b", Status.FAILED), result("load.c"), result("load.d"),
                    result("load.e", seconds=0.2), result("load.f", Status.FAILED))  # fmt: skip
    after = report(BAD, result("load.b"), result("load.c", Status.NOT_APPLICABLE),
                   result("load.e", seconds=0.4), result("load.f", Status.CRASHED),
                   result("load.g", Status.FAILED))  # fmt: skip
    diff = compare(before, after)
    assert ids(diff.new_failures) == ["load.a", "load.g"]
    assert ids(diff.fixed) == ["load.b"]
    assert ids(diff.not_applied) == ["load.c"]
    assert ids(diff.removed) == ["load.d"]
    assert ids(diff.slower) == ["load.e"]
    assert ids(diff.added) == ["load.g"]
    assert not diff.ok
    assert diff.to_dict()["new_failures"][0]["after"] == {
        "status": "failed", "seconds": 0.01, "came": "3 <b>",
    }  # fmt: skip
    assert compare(before, before).ok


@pytest.mark.parametrize(
    ("after", "words"), [([NONE], "not applicable now"), ([], "not run now")], ids=["none", "empty"]
)
def test_a_pass_that_is_gone_is_listed_and_no_success(tmp_path, after, words):
    report(GOOD).save(tmp_path / "a.json")
    report(*after).save(tmp_path / "b.json")
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    done = CliRunner().invoke(main, ["conform", "--diff", *files])
    assert (done.exit_code, words in done.stdout) == (1, True)
    assert "load.a" in done.stdout
    failed = report(result("load.a", Status.FAILED))
    assert compare(failed, report(*after)).ok


@pytest.mark.parametrize(("before", "after"), [(0.001, 0.04), (1.0, 1.4)])
def test_what_a_machine_does_is_not_slower(before, after):
    diff = compare(
        report(result("load.a", seconds=before)), report(result("load.a", seconds=after))
    )
    assert diff.slower == ()


def test_the_command_compares(tmp_path):
    report(GOOD).save(tmp_path / "a.json")
    report(BAD).save(tmp_path / "b.json")
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    done = CliRunner().invoke(main, ["conform", "--diff", *files])
    assert done.exit_code == 1
    assert re.search(r"fails now +load\.a +passed, 0\.010 s +failed, 0\.010 s: 3 <b>", done.stdout)
    done = CliRunner().invoke(main, ["conform", "--diff", *files[::-1], "--json"])
    assert (done.exit_code, json.loads(done.stdout)["fixed"][0]["id"]) == (0, "load.a")
    document = json.loads((tmp_path / "a.json").read_text())
    for case in ({"notes": []}, {"seconds": "long"}):
        spoilt = {**document, "cases": [document["cases"][0] | case]}
        (tmp_path / "b.json").write_text(json.dumps(spoilt))
        done = CliRunner().invoke(main, ["conform", "--diff", *files])
        assert (done.exit_code, "is no report of devrt conform" in done.stderr) == (1, True)
    (tmp_path / "b.json").write_text("[]")
    done = CliRunner().invoke(main, ["conform", "--diff", *files])
    assert done.exit_code == 1
    assert "is no report of devrt conform" in done.stderr


LIES = {
    "id must be a text": {"id": ["load.a"]},
    "title must be a text": {"title": None},
    "came must be a text": {"came": 7},
    "output must be a text": {"output": {}},
    "'good' is not a valid Status": {"status": "good"},
    "notes must be an object": {"notes": []},
    "called must be a list": {"notes": {"called": "A"}},
    "kind must be a text": {"notes": {"kind": [7]}},
    'number from zero on, not "long"': {"seconds": "long"},
    "number from zero on, not true": {"seconds": True},
    "number from zero on, not NaN": {"seconds": float("nan")},
    "number from zero on, not Infinity": {"seconds": float("inf")},
    "number from zero on, not -1": {"seconds": -1},
    "number from zero on, not 1000000": {"seconds": 10**400},
}


@pytest.mark.parametrize(("reason", "fields"), LIES.items())
def test_a_report_with_another_type_in_it_is_refused_with_the_reason(tmp_path, reason, fields):
    report(GOOD).save(tmp_path / "r.json")
    document = json.loads((tmp_path / "r.json").read_text())
    document["cases"][0] |= fields
    (tmp_path / "r.json").write_text(json.dumps(document))
    with pytest.raises(InvalidArgumentError, match="is no report of devrt conform") as raised:
        Report.load(tmp_path / "r.json")
    assert reason in str(raised.value)


def test_a_report_with_a_case_twice_is_refused(tmp_path):
    report(GOOD, GOOD).save(tmp_path / "r.json")
    with pytest.raises(InvalidArgumentError, match=r"it has the case load\.a 2 times"):
        Report.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--list", "--level", "nolevel"], 1, "no level 'nolevel'; levels: load, memory"),
        (["acme", "--diff", "{0}", "{0}"], 2, "--diff compares two reports and runs nothing"),
        (["acme", "--report", "{0}", "--page", "{0}"], 1, "both the report and the page"),
    ],
)
def test_a_command_line_that_contradicts_itself_is_refused(tmp_path, arguments, status, words):
    report(GOOD).save(tmp_path / "r.json")
    filled = [argument.format(tmp_path / "r.json") for argument in arguments]
    done = CliRunner().invoke(main, ["conform", *filled])
    assert (done.exit_code, words in done.stderr) == (status, True)


def test_a_report_that_cannot_be_written_names_its_file(plugins):
    plugins.add("one")
    arguments = ["one", "--case", "load.probe_answers", "--report", "/dev/full"]
    done = CliRunner().invoke(main, ["conform", *arguments])
    assert done.exit_code == 1
    assert "/dev/full cannot be written: No space left on device" in done.stderr


def test_without_a_subject_nothing_runs():
    done = CliRunner().invoke(main, ["conform"])
    assert done.exit_code == 2
    assert "name a backend" in done.stderr


class Parsed(HTMLParser):
    """The elements of a page: which are open, which refer to something, and the text of all."""

    VOID = ("meta", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.refers, self.rows, self.words = [], [], 0, ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.open += [] if tag in self.VOID else [tag]
        self.refers += [v for name, v in attributes if name in ("src", "href", "action")]
        self.rows += ("data-status", "failed") in attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_the_page_has_all_of_the_report_and_needs_nothing_else():
    text = page(report(BAD, dataclasses.replace(NONE, id="execute.b")))
    parsed = Parsed(text)
    assert (parsed.open, parsed.refers, parsed.rows) == ([], [], 1)
    assert "url(" not in text
    assert "@import" not in text
    for words in ("fake-one 1.0", "3 <b>", "last\nwords", "it compiles nothing", "1 of 2 cases"):
        assert words in parsed.words
    assert "<b>" not in text.partition("<b>expected")[0]


def test_the_command_writes_report_and_page(tmp_path, plugins):
    plugins.add("one")
    files = [str(tmp_path / name) for name in ("r.json", "r.html")]
    arguments = ["one", "--case", "load.probe_answers", "--report", files[0], "--page", files[1]]
    done = CliRunner().invoke(main, ["conform", *arguments])
    assert done.exit_code == 0
    assert Report.load(files[0]).results[0].id == "load.probe_answers"
    assert "Conformance of fake-one 1.0" in (tmp_path / "r.html").read_text()


def test_what_of_the_c_api_was_exercised():
    assert report(GOOD).coverage() == {}
    assert "c_api" not in report(GOOD).to_dict()
    first = {
        "there": ("A", "B", "C", "E"),
        "absent": ("D",),
        "called": ("A",),
        "extension": ("FFI",),
    }
    second = {"called": ("A", "B", "D"), "unimplemented": ("B",), "probed": ("A", "E")}
    made = report(result("c_api.a", notes=first), result("c_api.b", notes=second))
    assert made.coverage() == {
        "called": ["A", "D"],
        "unimplemented": ["B"],
        "only_probed": ["E"],
        "never_called": ["C"],
        "absent": [],
        "extensions": ["FFI"],
    }
    assert made.to_dict()["c_api"] == made.coverage()
    assert "1 there, and never called" in Parsed(page(made)).words


def test_notes_are_written_and_read(tmp_path):
    made = report(result("c_api.a", notes={"called": ("A", "B")}))
    made.save(tmp_path / "r.json")
    assert Report.load(tmp_path / "r.json").results == made.results
