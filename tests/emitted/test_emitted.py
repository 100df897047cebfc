"""Every operation that is printed has a program, which `report.py` compiles."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def cases():
    spec = importlib.util.spec_from_file_location("emitted_cases", FOLDER / "cases.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_operation_that_the_sources_name_has_a_program(cases):
    programs = cases.chosen()
    covered = set().union(*map(cases.operations_of, programs.values()))
    assert not cases.named_operations() - covered
    listed = tomllib.loads((FOLDER / "refused.toml").read_text(encoding="utf-8"))
    assert {name for refused in listed.values() for name in refused} <= programs.keys()
