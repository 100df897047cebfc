"""Public packages are there after ``import devrt``, and cost nothing until they are used."""

import pkgutil

import pytest

import devrt

PUBLIC = sorted(
    module.name
    for module in pkgutil.iter_modules(devrt.__path__)
    if not module.name.startswith("_")
    and module.name not in ("cli", "examples", "native", "plugins", "probing", "tracing", "wire")
)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_package_resolves(run_python, name):
    code = f"import devrt; assert devrt.{name}.__name__ == 'devrt.{name}'; dir(devrt.{name})"
    result = run_python("-c", code)
    assert (result.returncode, result.stderr) == (0, "")


def test_none_is_imported_before(run_python):
    code = f"import sys, devrt; print([n for n in {PUBLIC!r} if f'devrt.{{n}}' in sys.modules])"
    assert run_python("-c", code).stdout == "[]\n"
