"""Plugins that ask devrt questions at the wrong time: an answer or an error, never a hang.

Each case is a process of its own with a deadline, for what it is about is threads that wait for
each other. The deadline is long beside what any case takes, and short beside for ever.
"""

import concurrent.futures
import textwrap
import threading

import pytest

from devrt.errors import PluginBusyError
from devrt.plugins.loading.once import Once

END = "\nprint('end')\n"
ANSWER = r"""
def answer(question):
    try:
        return question().platform
    except devrt.errors.DevrtError as error:
        return " ".join(f"{type(error).__name__}: {error}".split())

def tell(*words):
    print(" ".join(map(str, words)) + "\n", end="", flush=True)  # in one piece, among threads
"""
HEAD = f"import threading\nimport devrt\n{ANSWER}"


@pytest.fixture
def say(plugins, run_python):
    """Run a program that knows the folder's plugins, and return the lines that it prints."""

    def run(program, **environ):
        program = HEAD + textwrap.dedent(program) + END
        done = run_python("-c", program, path=[plugins.path], DEVRT_CONFIG_FILE="", **environ)
        assert done.returncode == 0, done.stderr
        *lines, end = done.stdout.splitlines()
        assert end == "end", done.stderr
        return lines

    return run


def before(plugins, platform, code, **options):
    """Install a plugin that runs some code when it is imported."""
    module = plugins.add(platform, **options)
    path = plugins.path / f"{module}.py"
    path.write_text(HEAD + textwrap.dedent(code) + path.read_text())
    return module


JOINED = """
def ask():
    tell("thread:", answer(lambda: devrt.get_backend({requests})))
thread = threading.Thread(target=ask)
thread.start()
thread.join()
"""
LEFT_ALONE = JOINED.replace("thread.join()", "")
USE = "tell('main:', answer(lambda: devrt.get_backend('one')))"


@pytest.mark.parametrize("requests", ["", "'one'"])
def test_a_plugin_that_waits_for_a_thread_that_asks_for_it(plugins, say, requests):
    before(plugins, "one", JOINED.format(requests=requests), priority=500)
    thread, main = say(USE, DEVRT_INIT_TIMEOUT="2")
    assert thread.startswith("thread: PluginBusyError: plugin fake_one_plugin is being loaded")
    assert "in another thread, for more than 2 s" in thread
    assert main == "main: one"


def test_a_plugin_that_waits_for_a_thread_that_asks_for_another(plugins, say):
    before(plugins, "one", JOINED.format(requests="'two'"))
    plugins.add("two")
    assert say(USE) == ["thread: two", "main: one"]


def test_a_plugin_that_starts_a_thread_and_goes_on(plugins, say):
    before(plugins, "one", LEFT_ALONE.format(requests="'one'"))
    lines = say(USE + "\nimport fake_one_plugin\nfake_one_plugin.thread.join()")
    assert sorted(lines) == ["main: one", "thread: one"]


def test_a_plugin_that_waits_in_another_way_is_given_up(plugins, say):
    pool = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:
        tell("thread:", pool.submit(answer, lambda: devrt.get_backend("one")).result())
    """
    before(plugins, "one", pool)
    thread, main = say(USE, DEVRT_INIT_TIMEOUT="2")
    assert "being loaded in another thread, for more than 2 s" in thread
    assert main == "main: one"


@pytest.mark.parametrize("requests", ["", "'one'"])
def test_a_plugin_that_asks_for_itself_while_it_is_imported(plugins, say, requests):
    before(plugins, "one", f"devrt.get_backend({requests})\n", priority=500)
    for line in say(f"{USE}\n{USE}"):
        assert "cannot be imported: importing 'fake_one_plugin' raised PluginBusyError" in line
        assert "requested meanwhile by itself" in line


def test_a_plugin_that_is_imported_by_somebody_else_and_asks_for_itself(plugins, say):
    before(plugins, "one", "tell('inside:', answer(lambda: devrt.get_backend('one')))\n")
    inside, main = say(f"import fake_one_plugin\n{USE}")
    assert "is being imported. Ask devrt for nothing" in inside
    assert main == "main: one"


@pytest.mark.parametrize("place", ["probe", "make"])
def test_a_probe_or_a_factory_that_asks_for_its_own_platform(plugins, say, place):
    ask = "import devrt; return devrt.get_backend('one')"
    plugins.add("one", **{place: ask})
    (line,) = say(USE)
    assert "requested meanwhile by itself" in line


BUSY_ONCE = """
    import devrt
    if len(contexts) == 1:
        try:
            devrt.get_backend("one")
        except devrt.errors.PluginBusyError as error:
            {then}
    return AcmeClient(1)"""


@pytest.mark.parametrize("then", ["raise", "raise OSError('no driver') from error"])
@pytest.mark.parametrize("requests", ["", "'one'"])
def test_a_factory_that_requested_itself_may_succeed_later(plugins, say, then, requests):
    plugins.add("one", make=BUSY_ONCE.format(then=then), priority=500)
    ask = f"tell(answer(lambda: devrt.get_backend({requests})))"
    first, failures, second = say(f"{ask}\ntell(devrt.default_runtime().failures())\n{ask}")
    assert first.startswith("PluginBusyError: the client of plugin fake-one")
    assert (failures, second) == ("{}", "one")


@pytest.mark.parametrize("timeout", [{}, {"DEVRT_INIT_TIMEOUT": "60"}])
def test_a_factory_that_asks_for_another_platform(plugins, say, timeout):
    plugins.add("one", make="import devrt; devrt.get_backend('two'); return AcmeClient(1)")
    plugins.add("two")
    assert say(USE, **timeout) == ["main: one"]


IN_THREADS = """
import sys
sys.setswitchinterval(1e-5)
start = threading.Barrier(2)
def ask(platform):
    start.wait()
    tell(platform, answer(lambda: devrt.get_backend(platform)))
threads = [threading.Thread(target=ask, args=(name,)) for name in ("one", "two")]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_two_plugins_that_import_each_other_in_two_threads(plugins, say):
    slow = "import time; time.sleep(0.2)\nimport {}\n"
    before(plugins, "one", slow.format("fake_two_plugin"))
    before(plugins, "two", slow.format("fake_one_plugin"))
    assert sorted(say(IN_THREADS)) == ["one one", "two two"]


def test_two_plugins_that_ask_for_each_other_in_two_threads(plugins, say):
    ask = "import time; time.sleep(0.2)\ntell('inside', answer(lambda: devrt.get_backend({!r})))\n"
    before(plugins, "one", ask.format("two"))
    before(plugins, "two", ask.format("one"))
    lines = say(IN_THREADS)
    assert sorted(line for line in lines if not line.startswith("inside")) == ["one one", "two two"]
    assert any("by what it waits for" in line or line.startswith("inside ") for line in lines)


def test_a_plugin_that_asks_for_one_that_imports_it(plugins, say):
    before(plugins, "one", "import time; time.sleep(0.2)\nimport fake_two_plugin\n")
    before(
        plugins,
        "two",
        "import time; time.sleep(0.4)\ntell('inside', answer(lambda: devrt.get_backend('one')))\n",
    )
    lines = say(IN_THREADS, DEVRT_INIT_TIMEOUT="2")
    assert sorted(line for line in lines if not line.startswith("inside")) == ["one one", "two two"]


def test_a_child_forked_while_a_plugin_is_loaded(plugins, say):
    fork = """
    import os
    if threading.current_thread() is not threading.main_thread():
        forked.set()
        release.wait()
    """
    before(plugins, "one", fork.replace("forked", "devrt.f").replace("release", "devrt.r"))
    plugins.add("two")
    lines = say(
        """
        import os
        devrt.f, devrt.r = threading.Event(), threading.Event()
        known = devrt.default_runtime().plugins
        thread = threading.Thread(target=known.candidates, args=(("one",),))
        thread.start()
        devrt.f.wait()
        child = os.fork()
        if child == 0:
            import sys
            sys.modules.pop("fake_one_plugin", None)
            devrt.r.set()
            tell("child", answer(lambda: devrt.get_backend("two")))
            os._exit(0)
        os.waitpid(child, 0)
        devrt.r.set()
        thread.join()
        tell("parent", answer(lambda: devrt.get_backend("one")))
        """
    )
    assert lines == ["child two", "parent one"]


MUTUAL = """
    import threading, devrt
    devrt.start.wait(60)
    def ask():
        devrt.output.append(devrt.answer(lambda: devrt.get_backend({!r})))
    {}
    return AcmeClient(1)"""
JOINS = "thread = threading.Thread(target=ask); thread.start(); thread.join()"
POOLS = """from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask).result()"""


def test_two_factories_that_ask_for_each_other_in_two_threads(plugins, say):
    """One of them is refused at once, long before a deadline of two minutes."""
    plugins.add("one", make=MUTUAL.format("two", "ask()"))
    plugins.add("two", make=MUTUAL.format("one", "ask()"))
    program = "devrt.start, devrt.output, devrt.answer = threading.Barrier(2), [], answer\n"
    lines = say(program + textwrap.dedent(IN_THREADS) + "\nprint(*devrt.output, sep='\\n')")
    assert {"one one", "two two"} <= set(lines)
    assert any("by what it waits for" in line for line in lines)


@pytest.mark.parametrize("wait", [JOINS, POOLS])
def test_two_factories_that_wait_for_each_other_through_threads(plugins, say, wait):
    plugins.add("one", make=MUTUAL.format("two", wait))
    plugins.add("two", make=MUTUAL.format("one", wait))
    program = (
        "import devrt.runtime.clients as clients\nclients._PATIENCE = 1\n"
        "devrt.start, devrt.output, devrt.answer = threading.Barrier(2), [], answer\n"
    )
    lines = say(program + textwrap.dedent(IN_THREADS) + "\nprint(*devrt.output, sep='\\n')")
    assert {"one one", "two two"} <= set(lines)
    (busy, *_) = [line for line in lines if line.startswith("PluginBusyError")]
    assert "for more than 1 s" in busy
    assert "fake-one" in busy
    assert "fake-two" in busy


# -- the rule itself ------------------------------------------------------------------------------


def test_many_threads_get_what_one_made():
    once, made, kept = Once(str), [], {}

    def make():
        made.append(threading.get_ident())
        return kept.setdefault("key", object())

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        got = set(pool.map(lambda _: once.get("key", lambda: kept.get("key"), make), range(200)))
    assert len(made) == len(got) == 1


def test_what_was_not_kept_is_tried_again():
    once = Once(str)
    with pytest.raises(OSError, match="no ship"):
        once.get("key", lambda: None, lambda: (_ for _ in ()).throw(OSError("no ship")))
    assert once.get("key", lambda: None, lambda: 5) == 5


def test_asking_for_what_one_is_making_is_refused():
    once = Once(lambda key: f"making {key}")
    with pytest.raises(PluginBusyError, match="making key and was requested meanwhile by itself"):
        once.get("key", lambda: None, lambda: once.get("key", lambda: None, lambda: 5))
    assert once.get("key", lambda: None, lambda: once.get("other", lambda: None, lambda: 6)) == 6
