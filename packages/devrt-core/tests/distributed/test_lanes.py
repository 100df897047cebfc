"""Lanes: work that runs in order, whichever thread has it done."""

import threading

from devrt.distributed.collectives.lanes import Lane


def test_jobs_run_one_at_a_time():
    lane, ended = Lane(), threading.Event()
    running, seen = [], []

    def job(name):
        running.append(name)
        # Another job that runs now would come within this time.
        ended.wait(0.2)
        seen.append(list(running))
        running.remove(name)

    def first():
        lane.submit(lambda: job("submitted"))
        job("run")

    lane.run(first)
    lane.run(lambda: job("run later"))
    ended.set()
    assert seen == [["run"], ["submitted"], ["run later"]]
