"""PJRT_NAMES_AND_LIBRARY_PATHS: its parser, its configuration files, and the plugins it names."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from devrt._config.layers import Config
from devrt.doctor import diagnose
from devrt.errors import BackendUnavailableError, ConfigError, DevrtWarning, UnknownPlatformError
from devrt.plugins import (
    ENVIRONMENT_VARIABLE,
    PluginRegistry,
    discover_plugins,
    environment_plugins,
)
from devrt.plugins.discovery.pjrt_env import (
    Entry,
    check_options,
    parse_entries,
    read_config,
)
from devrt.plugins.discovery.refs import UNNAMED
from devrt.records import Unavailable
from devrt.runtime import Runtime, register_plugin

NAMES = st.from_regex(r"[a-z][a-z0-9_.\-]{0,6}", fullmatch=True)
PATHS = st.one_of(st.text(min_size=1), st.text(alphabet='/a.,:;"\\ =', min_size=1))
ENTRIES = st.lists(st.builds(Entry, NAMES, PATHS), max_size=5, unique_by=lambda e: e.name)
SEPARATORS = st.sampled_from(":;")


def parsed(text, separator=":"):
    entries, problems = parse_entries(text, separator)
    return [(e.name, e.path) for e in entries], [(p.number, p.name, p.what) for p in problems]


def written(entries, separator):
    """Return a value for these entries, with every path in quotes."""
    quoted = ((e.name, e.path.replace('"', '""')) for e in entries)
    return ",".join(f'{name}{separator}"{path}"' for name, path in quoted)


@given(ENTRIES, SEPARATORS)
@example([Entry("a", '"'), Entry("b", "\\,"), Entry("c", "x\\")], ":")
@example([Entry("a", "b,c:d"), Entry("c", ' "x", ')], ":")
def test_what_is_written_reads_back(entries, separator):
    assert parse_entries(written(entries, separator), separator) == (tuple(entries), ())


@given(st.one_of(st.text(), st.text(alphabet='ab:;,"\\ @')), SEPARATORS)
def test_any_text_is_accounted_for(text, separator):
    entries, problems = parse_entries(text, separator)
    assert len({entry.name for entry in entries}) == len(entries)
    assert all(entry.path and entry.name == entry.name.lower() for entry in entries)
    numbers = [problem.number for problem in problems]
    assert numbers == sorted(set(numbers))
    for problem in problems:
        sentence = problem.sentence(separator)
        assert ENVIRONMENT_VARIABLE in sentence
        assert f"entry {problem.number} " in sentence
        assert f"name{separator}path" in sentence
    assert bool(entries or problems) == bool(text.strip())
    assert parse_entries(written(entries, separator), separator) == (entries, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:/x.so", [("a", "/x.so")]),
        ("A:/x.so, b : /y.so ", [("a", "/x.so"), ("b", "/y.so")]),
        ("a:/x:1.so", [("a", "/x:1.so")]),
        (r"a:/x\,1.so,b:/y", [("a", "/x,1.so"), ("b", "/y")]),
        ('a:"/x,1.so",b:/y', [("a", "/x,1.so"), ("b", "/y")]),
        ('a: "/x""1,.so" ,b:/y', [("a", '/x"1,.so'), ("b", "/y")]),
        ('a:/x"1,b:/y"', [("a", '/x"1'), ("b", '/y"')]),
        (r'a:"/x\",b:/y', [("a", "/x\\"), ("b", "/y")]),
        (r"a:C\dir\x,b:/y", [("a", r"C\dir\x"), ("b", "/y")]),
        ("", []),
        ("  ", []),
    ],
)
def test_entries(text, expected):
    assert parsed(text) == (expected, [])


def test_on_windows_a_semicolon_separates_and_a_colon_is_a_drive():
    assert parsed(r"a;C:\x.dll,b;D:\y.dll", ";") == (
        [("a", r"C:\x.dll"), ("b", r"D:\y.dll")],
        [],
    )


@pytest.mark.parametrize(
    ("text", "number", "name", "words"),
    [
        ("/lib/x.so", 1, "", "no platform's name before the first ':'"),
        ("a:/x,:/y", 2, "", "no platform's name"),
        ("a b:/x", 1, "", "no platform's name"),
        ("a@b:/x", 1, "", "no platform's name"),
        ("acme", 1, "acme", "no ':' and no path"),
        ("acme:", 1, "acme", "has no path"),
        ('acme:""', 1, "acme", "has no path"),
        ("a:/x,,b:/y", 2, "", "is empty"),
        ("a:/x,", 2, "", "is empty"),
        ('acme:"/x', 1, "acme", "quotes do not end"),
        ('acme:"/x"y,b:/y', 1, "acme", "quotes do not end"),
        ("a:/x,A:/y", 2, "a", "repeats the name 'a'"),
    ],
)
def test_what_is_wrong_is_named_and_the_others_stay(text, number, name, words):
    entries, problems = parsed(text)
    assert [problem[:2] for problem in problems] == [(number, name)]
    assert words in problems[0][2]
    assert [e for e in entries if e == ("b", "/y")] == ([("b", "/y")] if "b:/y" in text else [])


# -- configuration files --------------------------------------------------------------------------


def config(tmp_path, content):
    path = tmp_path / "acme.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_configuration_file(tmp_path):
    options = {"s": "a", "i": 3, "l": [1, 2], "f": 0.5, "b": True}
    path = config(tmp_path, {"library_path": "/x.so", "create_options": options})
    assert read_config(path) == ("/x.so", options, False, False)
    plain = {"library_path": "/x.so"}
    assert read_config(config(tmp_path, plain)) == ("/x.so", {}, False, False)
    flags = {"global_symbols": True, "experimental": True}
    assert read_config(config(tmp_path, plain | flags)) == ("/x.so", {}, True, True)


BAD_CONFIGS = {
    "no JSON": ("{", "it is no JSON"),
    "not text": ("\udcff", "it is no JSON"),
    "a list": ([], "holds list, not an object"),
    "no library": ({}, "library_path must be the path of a library, not None"),
    "a number": ({"library_path": 5}, "not 5"),
    "nothing": ({"library_path": ""}, "not ''"),
    "another key": (
        {"library_path": "x", "create_option": {}},
        "no key 'create_option'; did you mean 'create_options'?",
    ),
    "a key twice": ('{"library_path": "x", "library_path": "y"}', "'library_path' is there twice"),
    "options as a list": ({"library_path": "x", "create_options": [1]}, "create_options: options"),
    "a nested option": (
        {"library_path": "x", "create_options": {"o": {"a": 1}}},
        "create_options: option 'o' must be a string",
    ),
    "a list of strings": ({"library_path": "x", "create_options": {"o": ["a"]}}, "not ['a']"),
    "a list of booleans": ({"library_path": "x", "create_options": {"o": [True]}}, "'o' must be"),
    "a word": ({"library_path": "x", "experimental": "yes"}, "experimental must be true or false"),
    "null": ({"library_path": "x", "create_options": {"o": None}}, "not None"),
    "a large integer": ({"library_path": "x", "create_options": {"o": 1 << 63}}, "'o' must be"),
    "infinite": ('{"library_path": "x", "create_options": {"o": Infinity}}', "not inf"),
    "deep": ("[" * 60_000, "it is no JSON"),
    "long": (" " * 70_000, "longer than 65536 bytes"),
}


@pytest.mark.parametrize("what", BAD_CONFIGS)
def test_a_configuration_file_that_is_wrong(tmp_path, what):
    content, words = BAD_CONFIGS[what]
    if what == "long":
        path = config(tmp_path, content)
    elif what == "not text":
        path = str(tmp_path / "acme.json")
        with open(path, "wb") as file:
            file.write(b'{"library_path": "\xff"}')
    else:
        path = config(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert words in str(caught.value)
    assert path in str(caught.value)
    assert caught.value.path == path


def test_a_configuration_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_config(str(tmp_path / "none.json"))


@pytest.mark.parametrize("options", [5, "a", [("a", 1)], {1: 2}, {"": 1}, {"a": object()}])
def test_options_that_no_client_takes(options):
    with pytest.raises(ConfigError):
        check_options(options)


# -- the plugins ----------------------------------------------------------------------------------


def registry(text):
    environ = {ENVIRONMENT_VARIABLE: text}
    return PluginRegistry(lambda: discover_plugins([], environ))


def test_the_plugins_that_the_environment_names(tmp_path):
    library = tmp_path / "x.so"
    library.write_bytes(b"")
    path = config(tmp_path, {"library_path": str(library), "create_options": {"a": 1}})
    refs = environment_plugins({ENVIRONMENT_VARIABLE: f"one:{library},two:{path}"})
    assert [(r.platform, r.library, r.config, r.problem) for r in refs] == [
        ("one", str(library), "", ""),
        ("two", str(library), path, ""),
    ]
    assert {r.source for r in refs} == {f"environment ({ENVIRONMENT_VARIABLE})"}
    candidates = registry(f"one:{library},two:{path}").candidates()
    assert [(c.ref.platform, c.priority) for c in candidates] == [("one", 400), ("two", 400)]
    assert {c.state.reason for c in candidates} == {"no installed plugin can load PJRT libraries"}
    assert all("Install the PJRT loader (devrt-tpu)" in c.state.remedy for c in candidates)


def test_without_the_variable_there_is_nothing():
    assert environment_plugins({}) == environment_plugins({ENVIRONMENT_VARIABLE: " "}) == ()


def test_the_processs_own_environment_is_read_when_none_is_given(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "acme9:/x.so")
    assert [ref.platform for ref in environment_plugins()] == ["acme9"]
    assert "acme9" in {ref.platform for ref in discover_plugins()}


def test_a_path_that_is_no_file_is_reported_when_it_is_requested(tmp_path):
    missing = str(tmp_path / "no.so")
    (candidate,) = registry(f"one:{missing}").candidates(("one",))
    assert isinstance(candidate.state, Unavailable)
    assert missing in candidate.state.reason


def test_a_malformed_entry_is_a_broken_candidate_of_its_platform(tmp_path):
    (candidate,) = registry("acme").candidates(("acme",))
    assert candidate.state.phase == "discovery"
    assert "entry 1 of PJRT_NAMES_AND_LIBRARY_PATHS, 'acme', has no ':'" in candidate.state.reason
    path = config(tmp_path, "{")
    (candidate,) = registry(f"acme:{path}").candidates(("acme",))
    assert "is no JSON" in candidate.state.reason


def test_a_configuration_file_that_spoils_later_is_an_error_of_its_platform(tmp_path):
    path = config(tmp_path, {"library_path": "/x.so"})
    found = registry(f"acme:{path}")
    assert found.refs()[0].library == "/x.so"
    config(tmp_path, "{")
    (candidate,) = found.candidates()
    assert (candidate.state.phase, candidate.ref.problem) == ("load", "")
    assert "is no JSON" in candidate.state.reason


def test_an_entry_without_a_name_is_reported_with_every_selection_error(plugins, monkeypatch):
    from devrt._config.layers import Config
    from devrt.runtime import Runtime

    plugins.add("off", probe="return Unavailable('no card', 'Buy one.')")
    environ = {ENVIRONMENT_VARIABLE: "/lib/x.so,bad"}
    runtime = Runtime(
        config=Config({}), discover=lambda: discover_plugins([str(plugins.path)], environ)
    )
    assert [ref.platform for ref in runtime.plugins.refs()] == ["off", UNNAMED, "bad"]
    words = r"Beside that, entry 1 of PJRT_NAMES_AND_LIBRARY_PATHS, '/lib/x\.so'"
    with pytest.raises(UnknownPlatformError, match=words.removeprefix("Beside that, ")) as caught:
        runtime.get_backend("none")
    assert str(caught.value).count("entry 1 of") == 1
    assert caught.value.known == ("bad", "off")
    with pytest.raises(BackendUnavailableError, match=words):
        runtime.get_backend("off")
    with pytest.raises(BackendUnavailableError, match=r"entry 2 of .*'bad'"):
        runtime.get_backend("bad")
    with pytest.raises(Exception, match="entry 1 of"):
        runtime.get_backend()


# -- experimental libraries -----------------------------------------------------------------------


@pytest.fixture(params=["a configuration file", "a call", "a manifest"])
def experimental(request, plugins, add_loader, tmp_path, as_default, monkeypatch):
    """Return a function that makes a runtime with an experimental library beside ``plain``."""
    add_loader()
    plugins.add("plain", priority=1)
    library = tmp_path / "new.so"
    library.write_bytes(b"\x7fELF")

    def make(**environ):
        if request.param == "a configuration file":
            path = tmp_path / "new.json"
            path.write_text(json.dumps({"library_path": str(library), "experimental": True}))
            monkeypatch.setenv(ENVIRONMENT_VARIABLE, f"new:{path}")
        elif request.param == "a manifest":
            folder = plugins.path / "new_pkg"
            folder.mkdir(exist_ok=True)
            register = "register_plugin('new', library_path={!r}, experimental=True)"
            (folder / "__init__.py").write_text(
                "from devrt.runtime import register_plugin\n"
                f"def initialize(): {register.format(str(library))}\n"
            )
            (folder / "devrt.toml").write_text(
                'schema = 1\n[[backend]]\nplatform = "new"\npriority = 400\nexperimental = true\n'
            )
            if not (plugins.path / "new_dist-1.0.dist-info").exists():
                request.getfixturevalue("write_distribution")(
                    plugins.path, "new-dist", "[devrt_plugins]\nnew = new_pkg\n"
                )
        discover = lambda: (*plugins.refs(), *environment_plugins())  # noqa: E731
        runtime = as_default(Runtime(config=Config(environ), discover=discover))
        if request.param == "a call":
            register_plugin("new", library_path=library, experimental=True)
        return runtime

    return make


def test_an_experimental_library_is_kept_from_being_chosen(experimental):
    runtime = experimental(DEVRT_ALLOW_EXPERIMENTAL="0")
    assert runtime.get_backend().platform == "plain"
    (verdict,) = [v for v in runtime.decide().verdicts if v.candidate.ref.platform == "new"]
    assert verdict.candidate.experimental
    assert verdict.outcome.value == "excluded"
    assert "DEVRT_ALLOW_EXPERIMENTAL allows such only by name" in verdict.reason


def test_an_experimental_library_is_used_with_one_warning(experimental):
    runtime = experimental()
    with pytest.warns(DevrtWarning, match="'new' .*is experimental") as caught:
        assert runtime.get_backend().platform == "new"
    assert len(caught) == 1


def test_the_doctor_says_which_library_is_experimental(experimental, tmp_path):
    runtime = experimental(DEVRT_ALLOW_EXPERIMENTAL="0")
    report = diagnose(runtime=runtime, root=tmp_path)
    (row,) = [row for row in report.plugins if row.platform == "new"]
    assert (row.state, row.experimental) == ("excluded", True)
    assert report.default == "plain@fake-plain"
