"""The demo's classifier: what it learns of real digits, over eight devices."""

import numpy as np
import pytest

import devrt
from devrt.examples import digits as demo

pytest.importorskip("devrt_cpu")
pytestmark = pytest.mark.engine
datasets = pytest.importorskip("sklearn.datasets")


@pytest.fixture(scope="module")
def digits():
    found = datasets.load_digits()
    return found.data.astype(np.float32), found.target


@pytest.fixture
def mesh(cpu):
    return devrt.make_mesh((8,), ("rows",), devices=cpu)


def test_it_learns_to_read_digits_that_it_was_not_trained_on(digits, mesh):
    images, labels = digits
    weights, losses = demo.train(images[: -demo.HELD_OUT], labels[: -demo.HELD_OUT], mesh)
    assert losses[0] > 2
    assert losses[-1] < 0.1
    assert all(each.is_fully_replicated for each in weights)
    held_out = images[-demo.HELD_OUT :]
    found = np.asarray(demo.classify(weights, held_out))
    assert found.dtype == np.int32
    assert np.mean(found == labels[-demo.HELD_OUT :]) > 0.9
    assert np.array_equal(found, demo.expected([np.asarray(each) for each in weights], held_out))


def test_it_learns_the_same_on_one_device(digits, mesh, cpu):
    images, labels = digits
    alone = devrt.make_mesh((1,), ("rows",), devices=cpu[:1])
    both = [demo.train(images[:64], labels[:64], each)[1] for each in (mesh, alone)]
    np.testing.assert_allclose(both[0][:20], both[1][:20], rtol=1e-4)


def test_images_that_do_not_divide_are_left_out(digits, mesh):
    images, labels = digits
    trained = [demo.train(images[:n], labels[:n], mesh)[1] for n in (64, 71)]
    np.testing.assert_array_equal(trained[0], trained[1])
