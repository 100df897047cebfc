"""The wheels and the environments of the matrix, for the tests with the mark ``wheels``."""

import os
from pathlib import Path

import pytest

from wheelhouse import Environment, Wheelhouse


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory):
    """Return what builds each wheel once; TEST_WHEELHOUSE names a folder that has some."""
    given = os.environ.get("TEST_WHEELHOUSE")
    folder = Path(given) if given else tmp_path_factory.mktemp("wheelhouse")
    folder.mkdir(parents=True, exist_ok=True)
    return Wheelhouse(folder)


@pytest.fixture(scope="session")
def environments(wheelhouse, tmp_path_factory):
    """Return a function that makes each environment of the matrix once."""
    made = {}

    def environment(row):
        if row["name"] not in made:
            made[row["name"]] = Environment(row, tmp_path_factory.mktemp(row["name"]), wheelhouse)
        return made[row["name"]]

    return environment
