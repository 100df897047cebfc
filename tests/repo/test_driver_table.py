"""The drivers' table holds what is called: a driver that lacks a function of it is refused."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "packages/devrt-core/src/devrt/native/src/gpu"


def test_each_function_of_the_table_is_called():
    table = re.search(r"struct Functions \{(.*?)\n\};", (NATIVE / "driver.hpp").read_text(), re.S)
    assert table is not None
    names = re.findall(r"\(\*(\w+)\)\(", table[1])
    assert len(names) > 40
    assert [name for name in names if not re.search(rf"(\.|::){name}\b", _code())] == []


def _code() -> str:
    """Return the code that may call a driver, without the lines that fill the table."""
    paths = [*NATIVE.glob("*.[ch]pp"), *ROOT.glob("packages/*/native/driver.cpp")]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return "\n".join(
        line for line in lines if "from.get" not in line and "call.driver_version =" not in line
    )
