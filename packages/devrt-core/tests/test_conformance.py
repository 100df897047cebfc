"""The classes of real backends have every member that the contract's abstract classes have."""

import functools
import inspect

import pytest

from devrt import contract
from support import make_client

ABSTRACT = ("Client", "Device", "Memory", "Buffer")


def members(cls):
    """Return the public members that a contract class declares, inherited ones left out."""
    return sorted(
        name
        for name in vars(cls)
        if not name.startswith("_") or name in ("__call__", "__array__", "__dlpack__")
    )


def classes_of(client):
    """Return the class of each object that a client hands out."""
    device = client.devices()[0]
    buffer = client.buffer_from_pyval(1.5, device)
    found = (client, device, device.default_memory(), buffer)
    client.close()
    return dict(zip(ABSTRACT, map(type, found), strict=True))


def classes_of_acme():
    from devrt_acme.client import AcmeClient

    return classes_of(AcmeClient(1))


def classes_of_cpu():
    return classes_of(pytest.importorskip("devrt_cpu").make_cpu_client())


def classes_of_pjrt():
    return classes_of(make_client("loader"))


@pytest.mark.parametrize("classes", [classes_of_acme, classes_of_cpu, classes_of_pjrt])
@pytest.mark.parametrize("name", ABSTRACT)
def test_every_member_of_the_contract_is_there(classes, name):
    abstract, concrete = getattr(contract, name), classes()[name]
    assert issubclass(concrete, abstract)
    assert [member for member in members(abstract) if not hasattr(concrete, member)] == []
    for member in members(abstract):
        if isinstance(vars(abstract)[member], property):
            found = getattr(concrete, member)
            is_kept = isinstance(found, functools.cached_property)
            assert is_kept or not inspect.isroutine(found), f"{member} is no property"
        else:
            assert callable(getattr(concrete, member)), f"{member} is no method"


@pytest.mark.parametrize("classes", [classes_of_acme, classes_of_cpu, classes_of_pjrt])
def test_no_class_of_a_backend_is_abstract(classes):
    assert [c for c in classes().values() if getattr(c, "__abstractmethods__", None)] == []


def test_the_check_would_notice_a_missing_member():
    assert "buffer_from_pyval" in members(contract.Client)
    assert "memory_stats" in members(contract.Device)
    assert not hasattr(contract.Memory, "buffer_from_pyval")


@pytest.mark.parametrize(
    "name", ["Client", "Device", "Memory", "Buffer", "LoadedExecutable", "Topology"]
)
def test_an_abstract_class_cannot_be_made(name):
    with pytest.raises(TypeError, match="abstract"):
        getattr(contract, name)()
