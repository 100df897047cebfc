"""Arrays that NumPy cannot make on the host."""

import pytest

import devrt
import devrt.numpy as dnp
from devrt.errors import InvalidArgumentError, InvalidTypeError, OutOfMemoryError
from devrt.numpy.made_on_host import made

BEYOND = 1 << 45  # of elements: more bytes than any process can address
CASES = {
    "zeros": lambda device: dnp.zeros((BEYOND,), device=device),
    "ones": lambda device: dnp.ones((BEYOND,), device=device),
    "full": lambda device: dnp.full((BEYOND,), 2.0, device=device),
    "empty": lambda device: dnp.empty((BEYOND,), device=device),
    "full_like": lambda device: dnp.full_like(dnp.zeros(3), 2, shape=(BEYOND,), device=device),
    "arange": lambda device: dnp.arange(BEYOND, device=device),
    "linspace": lambda device: dnp.linspace(0, 1, BEYOND, device=device),
    "eye": lambda device: dnp.eye(1 << 23, device=device),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_host_has_no_memory_for_names_the_device_and_the_bytes(cpu, case):
    with pytest.raises(OutOfMemoryError, match=r"cannot allocate [0-9]{14,} bytes") as caught:
        CASES[case](cpu[1])
    assert str(cpu[1]) in str(caught.value)
    assert caught.value.device == str(cpu[1])
    assert isinstance(caught.value, MemoryError)


def test_without_a_device_the_default_one_is_named(cpu):
    with pytest.raises(OutOfMemoryError, match=f"put on {devrt.devices()[0]}"):
        dnp.tri(1 << 24)


def _exhausted():
    raise MemoryError


def test_memory_that_something_else_lacks():
    with pytest.raises(OutOfMemoryError, match="cannot allocate it for"):
        made("zeros", "there", _exhausted)


@pytest.mark.parametrize("shape", [(1 << 62,), (1 << 70,), (-1,), -1], ids=str)
def test_what_is_no_shape(cpu, shape):
    for make in (dnp.zeros, dnp.ones, lambda shape: dnp.full(shape, 1.0)):
        with pytest.raises(InvalidArgumentError, match=r"failed|cannot fill"):
            make(shape)
        with pytest.raises(InvalidArgumentError, match="failed"):
            devrt.jit(lambda make=make: make(shape))()


@pytest.mark.parametrize("shape", [1.5, "a"])
def test_a_shape_of_another_type(cpu, shape):
    with pytest.raises(InvalidTypeError, match="zeros failed"):
        dnp.zeros(shape)
