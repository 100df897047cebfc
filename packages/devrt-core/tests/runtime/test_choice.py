"""Which backend a runtime takes, what it says when there is none, and what it leaves alone."""

import sys

import pytest

from devrt.errors import (
    BackendInitializationError,
    BackendUnavailableError,
    ConfigError,
    DevrtWarning,
    InvalidArgumentError,
    InvalidTypeError,
    NoBackendError,
    SelectionError,
    UnknownPlatformError,
)

FAILURES = {
    "raises": ("raise OSError('driver too old')", "OSError: driver too old"),
    "exits": ("raise SystemExit(5)", "SystemExit: 5"),
    "returns None": ("return None", "its factory returned None"),
    "returns another type": ("return 'client'", "its factory returned str, which is no"),
    "has no devices": ("return AcmeClient(0)", "its client has no devices"),
    "cannot count its devices": (
        "return type('Faulty', (AcmeClient,), {'device_count': lambda self: 1 / 0})(1)",
        "ZeroDivisionError",
    ),
}


def test_the_highest_priority_is_the_default(plugins):
    plugins.add("low", priority=1)
    plugins.add("high", priority=2)
    with plugins.runtime() as runtime:
        assert runtime.get_backend().platform == "high"
        assert runtime.get_backend() is runtime.get_backend("high")
        assert set(runtime.backends()) == {"high"}


@pytest.mark.parametrize(
    "environ",
    [
        {"DEVRT_PLATFORMS": "low"},
        {"JAX_PLATFORMS": "low"},
        {"DEVRT_PLATFORMS": " LOW ,high"},
        {"DEVRT_PLATFORMS": "low", "JAX_PLATFORMS": "high"},
        {"DEVRT_PLATFORM_NAME": "low"},
        {"JAX_PLATFORM_NAME": "low"},
        {"DEVRT_PLATFORMS": "low@fake-low"},
        {"DEVRT_PLATFORMS": "little"},
    ],
    ids=str,
)
def test_the_environment_chooses(plugins, environ):
    plugins.add("low", priority=1, aliases=("little",))
    plugins.add("high", priority=2)
    with plugins.runtime(**environ) as runtime:
        assert runtime.get_backend().platform == "low"


def test_a_platform_outside_of_the_policy_is_refused_though_installed(plugins):
    plugins.add("one")
    module = plugins.add("two")
    with plugins.runtime(DEVRT_PLATFORMS="one") as runtime:
        with pytest.raises(SelectionError, match="DEVRT_PLATFORMS allows only one") as caught:
            runtime.get_backend("two")
        assert "fake-two 1.0" in str(caught.value)
        assert (caught.value.platform, caught.value.allowed) == ("two", ("one",))
        assert runtime.get_backend("one").platform == "one"
        runtime.config.update("platforms", "two")
        with pytest.raises(SelectionError, match=r"config\.platforms allows only two"):
            runtime.get_backend("one")
    assert not sys.modules[module].contexts


def test_gpu_means_the_one_of_the_two_that_is_installed(plugins):
    plugins.add("rocm", aliases=("gpu",))
    plugins.add("host", priority=9)
    with plugins.runtime() as runtime:
        assert runtime.get_backend("gpu").platform == "rocm"
        assert runtime.get_backend("GPU") is runtime.get_backend("rocm")
    with plugins.runtime(DEVRT_PLATFORMS="gpu") as runtime:
        assert runtime.get_backend().platform == "rocm"
        assert runtime.get_backend("rocm").platform == "rocm"


@pytest.mark.parametrize("name", ["acmee", "none"])
def test_an_unknown_platform(plugins, name):
    plugins.add("acme2")
    plugins.add("other")
    runtime = plugins.runtime()
    with pytest.raises(UnknownPlatformError, match=f"serves platform '{name}'") as caught:
        runtime.get_backend(name)
    error = caught.value
    assert (error.platform, error.known) == (name, ("acme2", "other"))
    assert "Installed: acme2, other." in str(error)
    if name == "acmee":
        assert error.nearest == ("acme2",)
        assert "Did you mean 'acme2'?" in str(error)
    else:
        assert "No package for it is known." in str(error)
        assert "pip install" not in str(error), "a name is not guessed"


def test_an_unknown_platform_in_the_environment_names_the_variable(plugins):
    plugins.add("acme2")
    runtime = plugins.runtime(JAX_PLATFORMS="acme2,none")
    with pytest.raises(UnknownPlatformError, match=r"'none' \(JAX_PLATFORMS\)"):
        runtime.get_backend()
    assert runtime.get_backend("acme2").platform == "acme2"
    runtime.close()


def test_an_unknown_name_may_be_an_alias_of_a_plugin_that_does_not_load(plugins):
    plugins.add("cuda2", "import no_such_library")
    for runtime in (plugins.runtime(), plugins.runtime(DEVRT_PLATFORMS="gpu")):
        with pytest.raises(UnknownPlatformError, match="may serve it, could not be") as caught:
            runtime.get_backend("gpu")
        assert "fake-cuda2 1.0" in str(caught.value)
        assert "no_such_library" in str(caught.value)
    with pytest.raises(UnknownPlatformError, match="no_such_library"):
        runtime.get_backend()


def test_a_plugin_that_only_adds_to_a_platform_does_not_serve_it(plugins):
    source = """
        from devrt.hookspecs import hookimpl
        from devrt.records import MemoryKind
        @hookimpl
        def devrt_memory_kinds():
            return [MemoryKind(platform="acme2", kind="slow")]
    """
    plugins.add("acme2", source, distribution="slow-memory")
    runtime = plugins.runtime()
    with pytest.raises(UnknownPlatformError, match=r"What slow-memory 1\.0 adds needs the"):
        runtime.get_backend("acme2")
    with pytest.raises(NoBackendError):
        runtime.get_backend()


def test_no_backend_installed(plugins):
    runtime = plugins.runtime()
    with pytest.raises(
        NoBackendError, match=r"no backend is inst.*pip install ./packages/devrt-cpu"
    ):
        runtime.get_backend()
    with pytest.raises(
        UnknownPlatformError, match=r"packages/devrt-cpu \(in .*\. Installed: none\."
    ):
        runtime.get_backend("cpu")
    assert runtime.backends() == {}


def test_unavailable_with_every_reason_and_remedy(plugins):
    plugins.add("one", probe="return Unavailable('no card', 'Buy one.')", aliases=("gpu",))
    plugins.add("two", "import no_such_library")
    runtime = plugins.runtime()
    with pytest.raises(BackendUnavailableError, match="'one' cannot be used") as caught:
        runtime.get_backend("one")
    assert "one (fake-one 1.0): no card. Buy one." in str(caught.value)
    assert (caught.value.platform, caught.value.reasons) == ("one", {"fake-one 1.0": "no card"})
    with pytest.raises(BackendUnavailableError, match="no_such_library"):
        runtime.get_backend("two")
    with pytest.raises(BackendUnavailableError, match=r"'gpu'.*\n.*no card"):
        runtime.get_backend("gpu")
    with pytest.raises(NoBackendError, match="none of the installed") as caught:
        runtime.get_backend()
    assert "no card. Buy one." in str(caught.value)
    assert "no_such_library" in str(caught.value)


def test_an_unavailable_platform_in_the_environment_is_not_replaced(plugins):
    plugins.add("one", probe="return Unavailable('no card', 'Buy one.')", priority=9)
    plugins.add("two")
    with plugins.runtime() as runtime:
        assert runtime.get_backend().platform == "two"
    runtime = plugins.runtime(DEVRT_PLATFORMS="one,two")
    for _ in range(2):
        with pytest.raises(
            BackendUnavailableError, match=r"'one' \(DEVRT_PLATFORMS\).*\n.*no card"
        ):
            runtime.get_backend()
    assert runtime.live_clients() == {}


AUTOMATIC = r"\(set {}='' to automatically choose an available backend\)"


@pytest.mark.parametrize("variable", ["JAX_PLATFORMS", "DEVRT_PLATFORMS", "JAX_PLATFORM_NAME"])
def test_a_platform_in_the_environment_without_a_backend_fails_in_the_words_of_jax(
    plugins, variable
):
    plugins.add("cpu")
    pattern = f"^Unable to initialize backend 'cuda': .*'cuda' .{variable}.* {AUTOMATIC}$"
    with plugins.runtime(**{variable: "cuda"}) as runtime:
        for _ in range(2):
            with pytest.raises(UnknownPlatformError, match=pattern.format(variable)) as caught:
                runtime.get_backend()
        assert caught.value.platform == "cuda"
        assert '"./packages/devrt-cuda[xla]"' in str(caught.value)
        runtime.config.update(variable.partition("_")[2].lower(), "")
        assert runtime.get_backend().platform == "cpu"


def test_a_platform_in_the_environment_that_cannot_be_used_fails_in_the_words_of_jax(plugins):
    plugins.add("cuda", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("one", make="raise OSError('gone')")
    output = AUTOMATIC.format("JAX_PLATFORMS")
    with plugins.runtime(JAX_PLATFORMS="cuda") as runtime:
        pattern = rf"(?s)^Unable to initialize backend 'cuda': .*no card.*\n{output}$"
        with pytest.raises(BackendUnavailableError, match=pattern):
            runtime.get_backend()
    with plugins.runtime(JAX_PLATFORMS="one") as runtime:
        pattern = rf"^Unable to initialize backend 'one': .*OSError: gone.* {output}$"
        for _ in range(2):
            with pytest.raises(BackendInitializationError, match=pattern) as caught:
                runtime.get_backend()
            assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("what", FAILURES)
@pytest.mark.parametrize("how", ["argument", "alias", "environment", "full name"])
def test_a_named_platform_that_fails_gives_the_same_error_each_time(plugins, what, how):
    make, words = FAILURES[what]
    module = plugins.add("bad", make=make, priority=9, aliases=("worse",), version="0.3")
    plugins.add("bad", distribution="second-bad")
    plugins.add("good")
    environ = {"DEVRT_PLATFORMS": "bad,good"} if how == "environment" else {}
    name = {"argument": "bad", "alias": "worse", "full name": "bad@fake-bad"}.get(how)
    runtime = plugins.runtime(**environ)
    errors = []
    for _ in range(3):
        with pytest.raises(BackendInitializationError) as caught:
            runtime.get_backend(name)
        errors.append(caught.value)
    first, *others = errors
    assert words in str(first)
    assert "'bad' could not be initialised by plugin fake-bad 0.3" in str(first)
    assert first.data == {
        "phase": "client",
        "plugin": "fake-bad",
        "version": "0.3",
        "platform": "bad",
    }
    for error in others:
        assert error is not first
        assert (str(error), error.data) == (str(first), first.data)
        assert error.__cause__ is first.__cause__
    assert (first.__cause__ is not None) == ("returned" not in words and "devices" not in words)
    assert len(sys.modules[module].contexts) == 1
    assert runtime.live_clients() == {}


@pytest.mark.parametrize("what", FAILURES)
def test_an_implicit_choice_that_fails_falls_back_once_and_says_so(plugins, what):
    make, words = FAILURES[what]
    module = plugins.add("bad", make=make, priority=9)
    plugins.add("good")
    with plugins.runtime() as runtime:
        with pytest.warns(DevrtWarning) as caught:
            assert runtime.get_backend().platform == "good"
        (warning,) = caught
        assert words in str(warning.message)
        assert "fake-bad 1.0" in str(warning.message)
        assert "name 'bad' in DEVRT_PLATFORMS to make this an error" in str(warning.message)
        assert warning.filename == __file__
        assert runtime.get_backend().platform == "good"
        runtime.config.update("default_device", None)
        assert runtime.get_backend().platform == "good"
        with pytest.raises(BackendInitializationError):
            runtime.get_backend("bad")
        assert len(sys.modules[module].contexts) == 1


def test_fail_quietly_falls_back_without_a_word(plugins):
    plugins.add("bad", make="raise OSError('gone')", priority=9, fail_quietly=True)
    plugins.add("good")
    with plugins.runtime() as runtime:
        assert runtime.get_backend().platform == "good"
        verdicts = {v.candidate.ref.platform: v for v in runtime.decide().verdicts}
        assert verdicts["bad"].outcome.value == "broken"
        assert "OSError: gone" in verdicts["bad"].reason


def test_when_all_fail_every_cause_is_reported(plugins):
    for platform in ("one", "two"):
        plugins.add(platform, make=f"raise OSError('no {platform}')", fail_quietly=True)
    runtime = plugins.runtime()
    for _ in range(2):
        with pytest.raises(NoBackendError, match=r"OSError: no one(.|\n)*OSError: no two"):
            runtime.get_backend()


OPTION = {
    "make": "return AcmeClient(context.options['num_bad'])",
    "options": "(OptionSpec(name='num_bad', type=int, default=2, minimum=1),)",
}


REFUSES = f"""
    if context.options["num_bad"] > 3:
        from devrt.errors import InvalidArgumentError
        raise InvalidArgumentError("three at most")
    {OPTION["make"]}"""


@pytest.mark.parametrize(
    ("make", "given", "error", "words"),
    [
        (OPTION["make"], "many", ConfigError, "environment variable DEVRT_NUM_BAD"),
        (REFUSES, "4", InvalidArgumentError, "three at most"),
    ],
    ids=["a bad value", "an argument that the factory refuses"],
)
def test_a_value_of_an_option_that_is_an_error_can_be_fixed(plugins, make, given, error, words):
    plugins.add("bad", priority=9, make=make, options=OPTION["options"])
    plugins.add("good")
    with plugins.runtime(DEVRT_NUM_BAD=given) as runtime:
        for name in (None, "bad", None):
            with pytest.raises(error, match=words):
                runtime.get_backend(name)
        runtime.config.update("num_bad", 3)
        assert runtime.get_backend().device_count() == 3


@pytest.mark.parametrize("name", ["", " ", ",", " , "])
def test_an_empty_name_is_no_platform(plugins, name):
    plugins.add("good")
    for ask in ("get_backend", "decide", "make_client"):
        with pytest.raises(InvalidArgumentError, match="name is empty"):
            getattr(plugins.runtime(), ask)(name)


@pytest.mark.parametrize("backend", [5, b"good", ["good"], object])
def test_what_is_neither_a_name_nor_a_client(plugins, backend):
    plugins.add("good")
    with pytest.raises(InvalidTypeError, match="named by a string or given as a client"):
        plugins.runtime().get_backend(backend)


@pytest.mark.parametrize("arguments", [(None,), (5,), ("good", 5), ("good", {5: 1}), ("good", [1])])
def test_what_no_client_can_be_made_of(plugins, arguments):
    plugins.add("good")
    with pytest.raises(InvalidTypeError, match=r"named by a string|from names to values"):
        plugins.runtime().make_client(*arguments)


def test_a_client_is_its_own_backend(plugins):
    plugins.add("good")
    with plugins.runtime() as runtime:
        client = runtime.make_client("good")
        assert runtime.get_backend(client) is client
        client.close()


def test_the_decision_tells_of_failures_but_asks_no_client(plugins):
    module = plugins.add("good")
    runtime = plugins.runtime()
    decision = runtime.decide()
    assert decision.chosen.ref == plugins.ref("good")
    assert runtime.decide() == decision
    assert sys.modules[module].contexts == []
    assert runtime.live_clients() == {}


MARKED = "import pathlib; pathlib.Path(__file__).with_suffix('.imported').touch()"


@pytest.mark.parametrize(
    ("code", "environ", "expected"),
    [
        ("devrt.devices('p2')", {}, ["p2"]),
        ("devrt.devices('P2')", {}, ["p2"]),
        ("devrt.devices('p2@fake-p2')", {}, ["p2"]),
        ("devrt.devices()", {"DEVRT_PLATFORMS": "p2"}, ["p2"]),
        ("devrt.device_count()", {"JAX_PLATFORMS": "p1,p2"}, ["p1", "p2"]),
        ("devrt.config.update('platforms', 'p3'); devrt.devices()", {}, ["p3"]),
        ("devrt.default_runtime().plugins.refs()", {}, []),
        ("devrt.default_runtime().decide('p1')", {}, ["p1"]),
        ("devrt.devices('second')", {}, ["p0", "p1", "p2", "p3", "p4"]),
    ],
)
def test_no_other_plugin_is_imported(plugins, run_python, code, environ, expected):
    for number in range(5):
        aliases = ("second",) if number == 2 else ()
        plugins.add(f"p{number}", extra=MARKED, aliases=aliases)
    result = run_python("-c", f"import devrt; {code}", path=[plugins.path], **environ)
    assert (result.returncode, result.stderr) == (0, "")
    imported = sorted(f.name.split("_")[1] for f in plugins.path.glob("*.imported"))
    assert imported == expected
