"""The wheels in environments outside the checkout: what is installed there and what must hold.

Both are data, in matrix.toml.
"""

import json

import pytest

from wheelhouse import CHECKOUT, MATRIX

pytestmark = pytest.mark.wheels

CHECKS = [
    pytest.param(row, check, id=f"{row['name']}-{number}-{' '.join(check['command'][:2])}")
    for row in MATRIX["environment"]
    for number, check in enumerate(row["check"])
]


def value_at(data, path):
    """Return the value at a dotted path; ``key=value`` picks the one list item that has it."""
    for step in path.split("."):
        key, found, wanted = step.partition("=")
        if found:
            (data,) = (item for item in data if item[key] == wanted)
        else:
            data = data[int(step)] if isinstance(data, list) else data[step]
    return data


@pytest.fixture
def edited():
    """Return a function that changes a text file, which is put back afterwards."""
    former = {}

    def edit(path, old, new):
        former.setdefault(path, path.read_text())
        text = path.read_text()
        assert old in text, path
        path.write_text(text.replace(old, new))

    yield edit
    for path, text in former.items():
        path.write_text(text)


@pytest.mark.parametrize(("row", "check"), CHECKS)
def test_check(environments, edited, row, check):
    environment = environments(row)
    for file, old, new in check.get("edits", []):
        edited(environment.site / file, old, new)
    environ = {"PYTHONDONTWRITEBYTECODE": "1"} if "edits" in check else {}
    environ.update(check.get("environ", {}))
    deprived = check.get("without", [])
    output = environment.run(check["command"], check.get("status", 0), deprived, **environ)
    for text in check.get("holds", []):
        assert text.format_map(environment.words) in output
    for text in check.get("lacks", []):
        assert text.format_map(environment.words) not in output
    for path, value in check.get("json", {}).items():
        wanted = value.format_map(environment.words) if isinstance(value, str) else value
        assert value_at(json.loads(output[output.index("{") :]), path) == wanted, path


def test_the_matrix_has_each_backend_alone_and_all_of_them():
    rows = [set(row["install"]) for row in MATRIX["environment"]]
    ours = set(MATRIX["packages"])
    assert ours in rows
    assert {"devrt-core"} in rows
    for backend in ours - {"devrt-core"}:
        assert {"devrt-core", backend} in rows
    assert all((CHECKOUT / "packages" / name).is_dir() for name in ours)
