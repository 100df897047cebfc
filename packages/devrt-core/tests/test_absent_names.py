"""Names of the interface that this release lacks, and what a module shows of itself."""

import importlib

import pytest

import devrt
from devrt import xla_client
from devrt.records import MemoryKind


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vmap", r"not in this release.*broadcast.*devrt\.lax\.map"),
        ("jvp", r"Forward-mode derivatives are not in this release.*devrt\.vjp"),
        ("jacfwd", r"Forward-mode derivatives are not in this release.*devrt\.vjp\(f, x\)"),
        ("jacrev", r"devrt\.vjp\(f, x\), devrt\.lax\.map"),
        ("hessian", r"devrt\.vjp\(devrt\.grad\(f\), x\), devrt\.lax\.map"),
        ("linearize", r"Forward-mode derivatives are not in this release"),
        ("make_jaxpr", r"devrt\.jit\(f\)\.lower\(\*arguments\)\.as_text\(\)"),
        ("disable_jit", "without devrt.jit"),
        ("scipy", "devrt.numpy.linalg"),
        ("custom_jvp", "devrt.custom_vjp"),
        ("load_program", r"from devrt\.programs import load_program"),
        ("devces", r"Did you mean 'devices'\?"),
    ],
)
def test_a_name_that_is_not_there_says_what_to_do(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(devrt, name)


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("devrt.numpy", "arrange", "Did you mean 'arange'?"),
        ("devrt.numpy", "float_32", "Did you mean 'float32'?"),
        ("devrt.numpy", "hanning", "Use numpy.hanning on numpy.asarray(x)"),
        ("devrt.numpy.linalg", "slove", "Did you mean 'solve'?"),
        ("devrt.numpy.fft", "fftt", "Did you mean 'fft'?"),
        ("devrt.lax", "scann", "Did you mean 'scan'?"),
        ("devrt.random", "unifrm", "Did you mean 'uniform'?"),
        ("devrt.random", "gaussian", "Did you mean 'normal'?"),
        ("devrt.random", "seed", "devrt.random.key(seed)"),
        ("devrt.debug", "breakpoint", "devrt.debug.print"),
    ],
)
def test_packages_of_functions_say_what_was_meant(module, name, words):
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(module), name)
    assert str(caught.value).startswith(f"module {module!r} has no attribute {name!r}. ")
    assert words in str(caught.value)


def test_names_with_an_underscore_are_only_absent():
    with pytest.raises(AttributeError, match=r"no attribute '_abs'$"):
        _ = importlib.import_module("devrt.numpy")._abs


@pytest.mark.parametrize("statement", ["import devrt.devces", "import devrt.devces.more"])
def test_importing_it_says_that_too(statement):
    words = r"^No module named 'devrt\.devces'\. Did you mean 'devices'\?"
    with pytest.raises(ModuleNotFoundError, match=words):
        exec(statement)


@pytest.mark.parametrize(
    ("name", "words"), [("devces", "Did you mean 'devices'"), ("vmap", "It is not in this release")]
)
def test_importing_it_from_the_package_asks_for_no_module(name, words):
    with pytest.raises(ImportError, match=rf"^cannot import name '{name}' from 'devrt'\. {words}"):
        exec(f"from devrt import {name}")


def test_what_a_package_has_is_imported_as_ever():
    from devrt import config, devices, programs

    assert (config, devices, programs) == (devrt.config, devrt.devices, devrt.programs)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'devrt\.tree\.nothing'"):
        importlib.import_module("devrt.tree.nothing")


@pytest.mark.parametrize("module", [devrt, xla_client])
def test_a_name_of_nothing_is_only_absent(module):
    with pytest.raises(AttributeError) as caught:
        _ = module.nothing
    assert str(caught.value) == f"module {module.__name__!r} has no attribute 'nothing'"


def test_the_module_shows_its_own_names_only():
    assert dir(xla_client) == sorted(xla_client.__all__)
    assert {"Any", "abc", "annotations"}.isdisjoint(dir(xla_client))


def test_a_misspelt_field_of_a_record_is_named_with_the_missing_one():
    with pytest.raises(TypeError, match="needs 'kind', and has no field 'knid'"):
        MemoryKind(platform="one", knid="slow")
    with pytest.raises(TypeError, match=r"^MemoryKind needs 'kind'$"):
        MemoryKind(platform="one")
