"""Collectives and their gradients give what jax gives."""

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp

pytestmark = pytest.mark.engine

FOLDER = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("collective_cases", FOLDER / "collective_cases.py")
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
CASES = [(name, False) for name in cases.CASES]
CASES += [(name, True) for name in cases.CASES if name not in cases.UNCHECKED]


@pytest.fixture(scope="module")
def results(cpu):
    """Return what computes all cases, with or without the check, in one program."""

    @functools.cache
    def made(is_checked):
        functions = cases.functions(devrt, dnp, is_checked)
        return devrt.jit(lambda x: {name: each(x) for name, each in functions.items()})(cases.X)

    return made


@pytest.mark.parametrize(("name", "is_checked"), CASES)
def test_a_value_and_its_gradient(results, name, is_checked):
    with np.load(FOLDER / "collective_cases.npz") as file:
        for i, found in enumerate(results(is_checked)[name]):
            expected = file[f"{name}|{is_checked:d}|{i}"]
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
