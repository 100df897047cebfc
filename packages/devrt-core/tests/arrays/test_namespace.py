"""The namespace that an array names as its own: what is there, and what the rest says."""

import numpy as np
import pytest

import devrt
from devrt.errors import UnimplementedError

pytest.importorskip("devrt_cpu")


def test_it_is_devrt_numpy():
    x = devrt.device_put(np.arange(3, dtype=np.float32))
    for version in (None, "2024.12"):
        assert x.__array_namespace__(api_version=version) is devrt.numpy
    assert isinstance(devrt.numpy.zeros_like(x), devrt.Array)
    with pytest.raises(AttributeError, match=r"Use numpy\.busday_count on numpy\.asarray\(x\)"):
        devrt.numpy.busday_count(x)


def test_it_claims_no_other_version_of_the_standard():
    with pytest.raises(UnimplementedError, match=r"'2021\.12'.*it follows 2024\.12"):
        devrt.device_put(1.0).__array_namespace__(api_version="2021.12")
