import gc

import pytest

from bench.case import Spec, Sweep, Timed, choose, fresh, repeated
from bench.timing import BLOCK_SECONDS, SAMPLES, block, calibrate


class Clockless(Timed):
    """A case whose calls cost a given time without taking any."""

    def __init__(self, each, max_loops=1_000_000):
        super().__init__(lambda item: None, range, max_loops)
        object.__setattr__(self, "each", each)

    def seconds(self, loops):
        return loops * self.each


@pytest.mark.parametrize("each", [20e-9, 1e-6, 300e-6, 3e-3])
def test_a_block_takes_about_its_time(each):
    plan = calibrate(Clockless(each))
    assert plan.samples == pytest.approx(SAMPLES, abs=2)
    assert plan.loops * plan.samples * each == pytest.approx(BLOCK_SECONDS, rel=0.3)


def test_a_call_longer_than_a_block_is_made_once_a_block():
    plan = calibrate(Clockless(0.5))
    assert (plan.loops, plan.samples) == (1, 1)


def test_a_case_that_holds_few_items_has_shorter_blocks():
    plan = calibrate(Clockless(1e-6, max_loops=4))
    assert (plan.loops, plan.samples) == (4, SAMPLES)


def test_a_block_is_one_value_a_sample_with_the_collector_off():
    seen = []
    plan = calibrate(Clockless(1e-3))
    values = block(Timed(lambda item: seen.append(gc.isenabled()), range), plan)
    assert len(values) == plan.samples
    assert not any(seen)
    assert gc.isenabled()


def test_repeated_calls_on_one_item_and_fresh_on_new_ones():
    seen = []
    repeated(seen.append, "x").seconds(3)
    assert seen == ["x", "x", "x"]
    fresh_items = []
    fresh(fresh_items.append, object, 8).seconds(3)
    assert len(set(map(id, fresh_items))) == 3


def test_fresh_items_are_bounded_by_their_size():
    assert fresh(print, object, 16 << 20).max_loops == 4
    assert fresh(print, object, 1 << 40).max_loops == 1


def test_quick_keeps_the_ends_and_the_middle_of_a_sweep():
    specs = [Spec("plain"), Spec("large", is_large=True)]
    specs += [Spec(f"at {n}", sweep=Sweep("s", "B", n)) for n in range(7)]
    names = [spec.name for spec in choose(specs, is_full=False, is_quick=True)]
    assert names == ["plain", "at 0", "at 3", "at 6"]
    assert choose(specs, is_full=True, is_quick=False) == specs
