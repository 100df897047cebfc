"""The clock of the kit's limits leaves out what a busy machine adds."""

import time

import pytest

from devrt.testing.conformance import clock as of_clock


def bounds(monkeypatch, tmp_path, text):
    """Return the clock with what the system says of this thread, and the plain one around it."""
    file = tmp_path / "schedstat"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(of_clock, "_SCHEDULED", file)
    before = time.perf_counter()
    came = of_clock.clock()
    return before, came, time.perf_counter()


def test_time_in_the_queue_for_a_processor_does_not_count(monkeypatch, tmp_path):
    before, came, after = bounds(monkeypatch, tmp_path, "7000000 2500000000 12\n")
    assert before - 2.5 <= came <= after - 2.5


def test_time_in_the_queue_between_the_two_clocks_does_not_count_either(monkeypatch):
    queued = iter([1.0, 3.0, 3.0])
    monkeypatch.setattr(of_clock, "_queued", lambda: next(queued))
    before = time.perf_counter()
    came = of_clock.clock()
    assert before - 3 <= came <= time.perf_counter() - 3
    assert next(queued, None) is None


@pytest.mark.parametrize("text", [None, "", "no numbers", "1"])
def test_all_time_counts_where_the_system_does_not_say(monkeypatch, tmp_path, text):
    before, came, after = bounds(monkeypatch, tmp_path, text)
    assert before <= came <= after


def test_what_the_system_says_is_read_and_sleep_counts():
    started = of_clock.clock()
    time.sleep(0.05)
    assert of_clock.clock() - started >= 0.05 - 1e-3
