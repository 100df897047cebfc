import math

import pytest

from bench.figures import Figure, exponent, growth, quantile, ratio, summarize


def figure(median):
    return Figure(median, median, median, 1)


def test_the_figure_is_the_median_of_the_blocks_medians():
    found = summarize([[1.0, 1.0, 100.0], [3.0], [2.0, 2.0]])
    assert found == Figure(2.0, 1.5, 2.5, 3)


@pytest.mark.parametrize(("q", "value"), [(0, 1.0), (0.25, 1.75), (0.5, 2.5), (1, 4.0)])
def test_quantiles_are_linear_between_neighbours(q, value):
    assert quantile([4.0, 1.0, 3.0, 2.0], q) == value


def test_a_quantile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_the_ratio_is_devrt_over_the_peer():
    assert ratio(figure(1.0), figure(4.0)) == 0.25


@pytest.mark.parametrize("pair", [(None, figure(1.0)), (figure(1.0), None), (figure(1), figure(0))])
def test_there_is_no_ratio_without_both_figures(pair):
    assert ratio(*pair) is None


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(power):
    assert exponent([(x, 3.0 * x**power) for x in (1, 2, 8, 64)]) == pytest.approx(power)


def test_points_without_a_logarithm_are_left_out():
    assert exponent([(0, 1.0), (1, 1.0), (2, 2.0), (4, -1.0)]) == pytest.approx(1.0)
    assert math.isnan(exponent([(1, 1.0), (2, 0.0)]))


def test_the_tail_shows_the_growth_that_a_fixed_cost_hides():
    found = growth([(x, 1000.0 + x) for x in (1, 10, 1e5, 1e6)])
    assert found is not None
    assert found.per_unit == pytest.approx(1.0)
    assert found.exponent < 0.6
    assert found.tail == pytest.approx(1.0, abs=0.01)


def test_one_point_does_not_grow():
    assert growth([(8, 1.0)]) is None
