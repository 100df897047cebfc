"""The logger ``devrt``: discovery, selection and initialisation."""

import logging

import devrt


def _here(caplog):
    """Return this thread's records: a watch of a test before may log that its server is away."""
    return [record for record in caplog.records if record.threadName == "MainThread"]


def test_the_log_tells_what_was_found_chosen_and_made(plugins, caplog):
    plugins.add("cpu")
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')", priority=9)
    caplog.set_level(logging.DEBUG, "devrt")
    with plugins.runtime() as runtime:
        runtime.get_backend()
        output = [(record.levelname, record.getMessage()) for record in _here(caplog)]
        count = len(output)
        runtime.get_backend()
        runtime.get_backend("cpu")
        assert len(_here(caplog)) == count, "what is known is not reported again"
    messages = [message for _, message in output]
    infos = [message for level, message in output if level == "INFO"]
    assert infos[0] == "2 plugins were found"
    assert infos[1] == (
        "platform 'cpu' is served by fake-cpu 1.0: highest priority (0) among the available"
    )
    assert infos[2].startswith("client of cpu@fake-cpu made in ")
    assert infos[2].endswith(" s: 2 devices")
    assert len(infos) == 3
    assert "candidate away@fake-away (unavailable): no card" in messages
    assert any(m.startswith("plugin away@fake-away 1.0, from entry point") for m in messages)
    assert "plugin cpu@fake-cpu was loaded: module fake_cpu_plugin" in messages


def test_a_decision_is_reported_once_within_an_override(plugins, caplog):
    plugins.add("cpu")
    caplog.set_level(logging.INFO, "devrt")
    with plugins.runtime() as runtime, runtime.config.override(init_timeout=9.0):
        runtime.get_backend()
        count = len(_here(caplog))
        for _ in range(3):
            runtime.get_backend()
        assert len(_here(caplog)) == count
        runtime.clear_backends()
        runtime.get_backend()
        assert len(_here(caplog)) > count


def test_the_log_tells_of_failures(plugins, caplog):
    plugins.add("bad", make="raise OSError('busy')", priority=9, fail_quietly=True)
    plugins.add("cpu")
    caplog.set_level(logging.INFO, "devrt")
    with plugins.runtime() as runtime:
        runtime.get_backend()
    messages = [record.getMessage() for record in _here(caplog)]
    assert any(m.startswith("client of bad@fake-bad failed in ") for m in messages)
    assert any("OSError: busy" in m for m in messages)
    assert "no backend was chosen" not in messages


def test_a_handler_may_ask_for_devices(plugins, as_default):
    """No lock is held while a record is made."""
    plugins.add("cpu")
    as_default(plugins.runtime())
    seen = []

    class Asking(logging.Handler):
        def emit(self, record):
            if "made in" in record.getMessage():
                seen.append(len(devrt.devices("cpu")))

    logger, handler = logging.getLogger("devrt"), Asking()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        devrt.devices()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert seen == [2]


def test_a_program_that_does_not_log_imports_no_logging(plugins, run_python):
    plugins.add("one")
    code = "import sys, devrt; devrt.get_backend('one'); print('logging' in sys.modules)"
    result = run_python("-c", code, path=[plugins.path])
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr
