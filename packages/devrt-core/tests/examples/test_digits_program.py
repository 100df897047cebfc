"""The demo's compiled program: what it says of real digits, over eight devices."""

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError
from devrt.examples import digits as demo

pytest.importorskip("devrt_cpu")
pytestmark = pytest.mark.engine
datasets = pytest.importorskip("sklearn.datasets")


@pytest.fixture(scope="module")
def digits():
    found = datasets.load_digits()
    return found.data[-demo.HELD_OUT :].astype(np.float32), found.target[-demo.HELD_OUT :]


def test_it_reads_digits_that_it_was_not_trained_on(digits, cpu):
    images, labels = digits
    program, found = demo.classify(images, cpu)
    assert found.dtype == np.int32
    assert np.array_equal(found, demo.expected(images))
    assert np.mean(found == labels) > 0.9
    assert program.in_shardings[-1].shard_shape(images.shape) == (100, 64)
    assert all(s.is_fully_replicated for s in program.in_shardings[:4])


def test_it_reads_what_it_is_given(digits, cpu):
    images, _ = digits
    turned = images[::-1].copy()
    _, found = demo.classify(turned, cpu)
    assert np.array_equal(found, demo.expected(turned))
    assert not np.array_equal(found, demo.expected(images))


def test_images_of_another_number_are_refused(digits, cpu):
    with pytest.raises(InvalidArgumentError, match=r"float32\[799, 64\] and must be"):
        demo.classify(digits[0][1:], cpu)
