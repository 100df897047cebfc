import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import worker
from bench.case import Spec, repeated
from bench.driver import Context, Options, Pool, measure, run_subject
from bench.environments import Environment, Peer, parse_overrides, resolve
from bench.fresh_process import ProcessError, run_fresh
from bench.plugins import make_plugins
from bench.process import Worker, WorkerError
from bench.sides import variables

# A worker of a few lines: answers as a real one does, and dies or hangs where a test says so.
FAKE = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        reply = {"version": "1.0"}
    elif request["op"] == "prepare":
        reply = {"error": "no such case"} if request["case"] == "bad" else {"loops": 1}
        case = request["case"]
    else:
        if case == sys.argv[1] + " dies":
            print("Fatal: broken", file=sys.stderr)
            os._exit(7)
        if case == sys.argv[1] + " hangs":
            time.sleep(600)
        reply = {"seconds": [1.0 if sys.argv[1] == "devrt" else 4.0]}
    print(json.dumps(reply), flush=True)
"""


def start_fake(environment, spec):
    return Worker([sys.executable, "-c", FAKE, environment.peer.name], {}, Path.cwd())


@pytest.fixture
def context():
    names = ("devrt", "jax")
    peers = {name: Environment(Peer(name, name, name), sys.executable) for name in names}
    return Context(peers, Options(blocks=3))


@pytest.fixture
def pool(context):
    with Pool(context, start_fake) as made:
        yield made


def test_both_sides_are_measured_in_turn(context):
    (row,) = run_subject(context, "put", [Spec("good")], start_fake)
    assert row.ratio == 0.25
    assert row.devrt.blocks == [1.0, 1.0, 1.0]
    assert row.peer == "jax 1.0"


def test_other_engines_are_measured_beside_the_peers(context):
    other = Environment(Peer("other", "devrt", "devrt"), sys.executable, engine="a-wheel")
    made = {**context.environments, "other": other}
    with_two = Context(made, context.options, engines=["other"])
    rows = run_subject(with_two, "put", [Spec("good", ("jax",))], start_fake)
    assert [row.peer for row in rows] == ["devrt 1.0 on a-wheel", "jax 1.0"]
    assert [row.ratio for row in rows] == [0.25, 0.25]


def test_a_case_that_fails_leaves_a_reason_and_the_worker_goes_on(context):
    bad, good = run_subject(context, "put", [Spec("bad"), Spec("good")], start_fake)
    assert bad.ratio is None
    assert bad.devrt.reason == "no such case"
    assert good.ratio == 0.25


def test_a_worker_that_dies_is_a_row_and_is_started_again(context):
    specs = [Spec("jax dies"), Spec("good")]
    died, good = run_subject(context, "put", specs, start_fake)
    assert died.devrt.figure is not None
    assert died.other.reason == "the worker ended with status 7: Fatal: broken"
    assert good.ratio == 0.25


def test_a_worker_that_does_not_answer_in_time_is_killed():
    # No time at all: what is tested is the end of the wait, not its length.
    with start_fake(Environment(Peer("jax", "jax", "jax"), sys.executable), Spec("good")) as made:
        assert made.ask({"op": "prepare", "case": "jax hangs"}, 60) == {"loops": 1}
        with pytest.raises(WorkerError, match="no answer within 0 s; the worker was killed"):
            made.ask({"op": "block"}, 0)
        assert not made.is_alive
        with pytest.raises(WorkerError, match="the worker was killed"):
            made.ask({"op": "block"}, 60)


def test_closing_the_pool_leaves_no_process(context):
    with Pool(context, start_fake) as pool:
        alive = pool.get("jax", Spec("good"))
        assert alive.is_alive
    assert not alive.is_alive


def test_another_device_count_takes_another_process(pool):
    first = pool.get("jax", Spec("good"))
    assert pool.get("jax", Spec("good")) is first
    assert pool.get("jax", Spec("good", devices=8)) is not first
    assert not first.is_alive
    second = pool.get("jax", Spec("good", devices=8))
    assert pool.get("jax", Spec("good", devices=8, platform="gpu")) is not second


def test_an_environment_without_its_library_is_a_row_that_names_it():
    peers = {
        "devrt": Environment(Peer("devrt", "devrt", "devrt"), sys.executable),
        "jax": Environment(Peer("jax", "jax", "no_such_library"), sys.executable),
        "old": Environment(Peer("old", "jax", "jax", ("jax==0",)), None, "old: not installed: why"),
    }
    context = Context(peers, Options(blocks=1))

    def start(environment, spec):
        if environment.peer.name == "jax":
            command = [sys.executable, "-m", "bench.worker", "jax"]
            return Worker(command, variables("jax", spec.devices), Path.cwd())
        return start_fake(environment, spec)

    rows = run_subject(context, "put", [Spec("good", ("jax", "old"))], start)
    assert rows[0].other.reason.startswith("jax: ModuleNotFoundError: No module named 'no_such")
    assert rows[1].other.reason == "old: not installed: why"
    assert all(row.devrt.figure is not None for row in rows)


def test_a_python_that_is_not_there_is_a_reason(context):
    gone = Environment(Peer("jax", "jax", "jax"), "/nonexistent/python")
    broken = Context({**context.environments, "jax": gone}, context.options)

    def start(environment, spec):
        if environment is gone:
            return Worker([gone.python], {}, Path.cwd())
        return start_fake(environment, spec)

    with Pool(broken, start) as pool:
        seen = measure(pool, "put", Spec("good"), ["devrt", "jax"], 1)
    assert seen["jax"].reason.startswith("jax: [Errno 2]")
    assert seen["devrt"].figure is not None


def test_the_server_answers_prepares_and_times(monkeypatch):
    subject = SimpleNamespace(toy_cases=lambda: {"good": lambda: repeated(abs, -1)})
    monkeypatch.setattr(worker, "module_of", lambda name: subject)
    requests = [
        {"op": "block"},
        {"op": "hello", "library": "json"},
        {"op": "prepare", "subject": "put", "case": "good"},
        {"op": "block"},
        {"op": "prepare", "subject": "put", "case": "no such"},
        {"op": "quit"},
        {"op": "block"},
    ]
    replies = io.StringIO()
    worker.serve(
        worker.Server("toy"), io.StringIO("".join(json.dumps(r) + "\n" for r in requests)), replies
    )
    early, hello, plan, block, wrong = map(json.loads, replies.getvalue().splitlines())
    assert early["error"] == "RuntimeError: block was requested before prepare"
    assert "numpy" in hello
    assert len(block["seconds"]) == plan["samples"]
    assert wrong["error"] == "KeyError: 'no such'"


def test_what_a_library_prints_does_not_break_the_protocol():
    code = (
        "import sys, bench.worker as w; sys.argv = ['w', 'toy'];"
        "w.Server.answer = lambda self, request: print('noise') or {'ok': 1}; w.main()"
    )
    with Worker([sys.executable, "-c", code], variables("numpy"), Path.cwd()) as made:
        assert made.ask({"op": "hello"}, 60) == {"ok": 1}


def test_a_request_after_the_end_is_an_error_with_the_last_words():
    with Worker([sys.executable, "-c", "raise SystemExit('bye')"], {}, Path.cwd()) as made:
        made._process.wait()
        with pytest.raises(WorkerError, match="status 1: bye"):
            made.ask({"op": "hello"}, 60)


def test_overrides_name_known_environments():
    known = ["devrt", "jax"]
    assert parse_overrides(["jax=/b"], "jax=/a,devrt=/c", known) == {"jax": "/b", "devrt": "/c"}
    with pytest.raises(ValueError, match="'torch=/a' is not NAME=PYTHON"):
        parse_overrides(["torch=/a"], "", known)


def test_an_environment_is_used_when_its_requirements_are_the_pinned_ones(tmp_path):
    peer = Peer("jax", "jax", "jax", ("jax==1",))
    assert resolve(peer, {}, tmp_path, install=False).python is None
    made = tmp_path / "jax-{}.{}".format(*sys.version_info)
    made.mkdir()
    (made / "requirements.txt").write_text("jax==1\n")
    found = resolve(peer, {}, tmp_path, install=False)
    assert found.python == str(made / "bin" / "python")
    (made / "requirements.txt").write_text("jax==0\n")
    assert resolve(peer, {}, tmp_path, install=False).python is None
    assert resolve(peer, {"jax": "/mine"}, tmp_path).python == "/mine"


def test_a_childs_variables_are_its_sides_own():
    base = {"XLA_FLAGS": "--mine", "PYTHONPATH": "/src", "HOME": "/h"}
    devrt = variables("devrt", 8, "/fakes", base)
    assert devrt["DEVRT_NUM_CPU_DEVICES"] == "8"
    assert devrt["PYTHONPATH"] == "/fakes:/src"
    assert "XLA_FLAGS" not in devrt
    jax = variables("jax", 8, "", base)
    assert jax["XLA_FLAGS"] == "--xla_force_host_platform_device_count=8"
    assert "PYTHONPATH" not in jax


def test_a_fresh_process_reports_its_own_peak_and_its_plugins(tmp_path):
    make_plugins(tmp_path, 3, "some_group")
    code = (
        "from importlib.metadata import entry_points\n"
        "print(len(entry_points(group='some_group')))\n"
        "import bench_fake_01"
    )
    run = run_fresh(sys.executable, code, variables("jax", extra_path=str(tmp_path)))
    assert run.output == "3"
    assert run.fakes == 1
    assert run.peak_bytes > 1 << 20


def test_a_fresh_process_that_fails_says_its_last_line():
    with pytest.raises(ProcessError, match=r"^ImportError: no$"):
        run_fresh(sys.executable, "raise ImportError('no')", {})
