"""Names of the interface that this release lacks, and what a module shows of itself."""

import importlib

import pytest

import devrt
from devrt import xla_client
from devrt.records import ClientFactory

LATER = [
    "DistributedRuntimeService",
    "get_distributed_runtime_client",
    "get_distributed_runtime_service",
]


@pytest.mark.parametrize(
    ("module", "name"), [(devrt, "distributed"), *((xla_client, name) for name in LATER)]
)
def test_a_name_that_will_come_says_so(module, name):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value) == (
        f"module {module.__name__!r} has no attribute {name!r}; it needs what this release does "
        "not have yet."
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vmap", r"does not trace this yet.*devrt\.programs\.load_program"),
        ("load_program", r"from devrt\.programs import load_program"),
        ("devces", r"Did you mean 'devices'\?"),
    ],
)
def test_a_name_that_is_not_there_says_what_to_do(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(devrt, name)


@pytest.mark.parametrize(
    "statement", ["import devrt.devces", "from devrt import devces", "import devrt.devces.more"]
)
def test_importing_it_says_that_too(statement):
    words = r"No module named 'devrt\.devces': .*Did you mean 'devices'\?"
    with pytest.raises(ModuleNotFoundError, match=words):
        exec(statement)


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
    with pytest.raises(TypeError, match="needs 'platform', and has no field 'platfrom'"):
        ClientFactory(platfrom="one", factory=print)
    with pytest.raises(TypeError, match=r"^ClientFactory needs 'factory'$"):
        ClientFactory(platform="one")
