"""The namespace that an array names as its own: what is there, and what the rest says."""

import numpy as np
import pytest

import devrt
from devrt.errors import UnimplementedError

pytest.importorskip("devrt_cpu")


def test_it_makes_arrays_and_says_what_it_cannot_do():
    x = devrt.device_put(np.arange(3, dtype=np.float32))
    xp = x.__array_namespace__()
    assert xp is devrt.numpy
    assert isinstance(xp.zeros_like(x), devrt.Array)
    with pytest.raises(AttributeError, match=r"Use numpy\.exp on numpy\.asarray\(x\)"):
        xp.exp(x)


def test_it_claims_no_version_of_the_standard():
    with pytest.raises(UnimplementedError, match=r"'2024\.12' of the array API standard"):
        devrt.device_put(1.0).__array_namespace__(api_version="2024.12")
