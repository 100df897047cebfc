"""The way through the disk cache, with a compiler that only counts."""

from types import SimpleNamespace

import numpy as np
import pytest

from devrt.compiling.cache import ExecutableCache
from devrt.compiling.load_or_compile import cache_source, load_or_compile
from devrt.compiling.program_facts import ProgramFacts
from devrt.errors import DevrtError, InvalidArgumentError

PARAMETERS = [((4, 2), np.dtype("f4")), ((), np.dtype("i4")), ((3,), np.dtype("f4"))]


@pytest.fixture
def compiler(tmp_path):
    """Return a function that compiles through a cache, and notes what it did."""
    library = tmp_path / "compiler.so"
    library.write_bytes(b"code")
    cache = ExecutableCache(tmp_path / "kept")
    steps = []

    def refuse(*_):
        raise InvalidArgumentError("no")

    def run(
        *depends_on,
        source=lambda: cache,
        path=library,
        loads=True,
        serializes=True,
        facts=None,
        **options,
    ):
        steps.clear()
        made = SimpleNamespace(name="main", parameters=PARAMETERS)

        def note(step, result):
            return lambda *_: steps.append(step) or result

        found = load_or_compile(
            source,
            "acme",
            str(path),
            facts or ProgramFacts(),
            depends_on,
            **options,
            load=note("load", made) if loads else refuse,
            compile=note("compile", made),
            serialize=note("serialize", b"bytes") if serializes else refuse,
        )
        assert found is made
        return steps[:]

    run.cache, run.library = cache, library
    return run


def test_what_was_compiled_is_loaded(compiler):
    assert compiler("program", b"options") == ["compile", "serialize"]
    assert compiler("program", b"options") == ["load"]
    (entry,) = compiler.cache.entries()
    assert entry.facts["takes"] == "float32[4,2], int32[], 1 more"
    assert (entry.facts["name"], entry.facts["platform"]) == ("main", "acme")


def test_everything_that_it_depends_on_counts(compiler, monkeypatch):
    compiler("program", "options")
    for other in (("program", "other"), ("program", "op", "tions"), ("programoptions",)):
        assert compiler(*other) == ["compile", "serialize"]
    monkeypatch.setenv("XLA_FLAGS", "--other")
    assert compiler("program", "options") == ["compile", "serialize"]
    monkeypatch.delenv("XLA_FLAGS")
    compiler.library.write_bytes(b"another version")
    assert compiler("program", "options") == ["compile", "serialize"]
    assert len(compiler.cache.entries()) == 6


def test_what_the_compiler_writes_into_a_folder_is_written_each_time(compiler, monkeypatch):
    for options in (b"xla_dump_to folder", "xla_dump_to"):
        assert compiler("program", options) == ["compile"]
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=folder")
    assert compiler("program") == ["compile"]


def test_what_is_refused_is_compiled_anew(compiler):
    compiler("program")
    assert compiler("program", loads=False) == ["compile", "serialize"]
    assert compiler("program") == ["load"]


def test_what_cannot_be_serialised_runs_all_the_same(compiler):
    assert compiler("program", serializes=False) == ["compile"]
    assert compiler.cache.entries() == []


@pytest.mark.parametrize("missing", [{"source": None}, {"source": lambda: None}, {"path": "/no"}])
def test_without_a_cache_or_a_file_nothing_is_read(compiler, missing):
    def never():
        raise AssertionError
        yield

    assert compiler("program", **missing) == ["compile"]
    if "path" not in missing:
        load_or_compile(
            missing["source"],
            "acme",
            "x",
            ProgramFacts(),
            never(),
            load=None,
            compile=lambda: 1,
            serialize=None,
        )


def test_an_error_of_the_compiler_goes_through(compiler):
    def fail():
        raise DevrtError("broken")

    with pytest.raises(DevrtError, match="broken"):
        load_or_compile(
            lambda: compiler.cache, "acme", str(compiler.library), ProgramFacts(), ["x"],
            load=None, compile=fail, serialize=None,
        )  # fmt: skip
    assert compiler.cache.entries() == []


def test_options_are_read_when_the_cache_is_first_opened(tmp_path):
    options = {}
    source = cache_source(options)
    options["compilation_cache_dir"] = str(tmp_path)
    assert source().folder == tmp_path
    options["enable_compilation_cache"] = False
    assert source() is None


@pytest.mark.parametrize(
    ("facts", "is_kept"),
    [
        (ProgramFacts(custom_calls={"scaled"}), False),
        (ProgramFacts(custom_calls={"Sharding"}), True),
        (ProgramFacts(custom_calls={"Sharding", "ours"}), True),
        (ProgramFacts(is_whole=False), False),
    ],
)
def test_what_only_the_compiler_can_check_is_compiled(compiler, facts, is_kept):
    """A program whose handlers may be missing is never loaded: its calls would fail later."""
    for _ in range(2):
        steps = compiler("program", facts=facts, answers=lambda name: name == "ours")
    assert steps == (["load"] if is_kept else ["compile"])
