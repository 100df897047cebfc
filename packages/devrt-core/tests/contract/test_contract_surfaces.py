"""The CPU client and the loader of PJRT plugins share the members of the contract, no others."""

import functools
import importlib
import inspect

import pytest

from devrt import contract
from devrt.contract.members import members

NAMES = ("Client", "Device", "Memory", "Buffer", "LoadedExecutable", "Topology")


def class_of(client, name):
    """Return the class that stands for one of the contract's in one of the two clients."""
    if client == "cpu":
        native = pytest.importorskip("devrt_cpu._ext")
        importlib.import_module("devrt_cpu._contract").register()
        topologies = importlib.import_module("devrt.topology")
        return topologies.DeviceTopology if name == "Topology" else getattr(native, f"Cpu{name}")
    pjrt = pytest.importorskip("devrt_pjrt").__name__
    modules = {
        "Buffer": "buffers.buffer",
        "LoadedExecutable": "programs.executable",
        "Memory": "connection.device",
        "Device": "connection.device",
    }
    module = importlib.import_module(f"{pjrt}.{modules.get(name, f'client.{name.lower()}')}")
    return getattr(module, f"Pjrt{name}")


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("client", ["cpu", "pjrt"])
@pytest.mark.parametrize("name", NAMES)
def test_every_member_of_the_contract_is_there_in_its_form(client, name):
    abstract, concrete = getattr(contract, name), class_of(client, name)
    assert issubclass(concrete, abstract)
    for member in members(abstract):
        found = inspect.getattr_static(concrete, member)
        is_value = not inspect.isroutine(found) and not hasattr(found, "__call__")  # noqa: B004
        is_value = is_value or isinstance(found, functools.cached_property)
        wanted = isinstance(inspect.getattr_static(abstract, member), property)
        assert is_value == wanted, f"{member} is {'no' if wanted else 'a'} property"


@pytest.mark.parametrize("name", NAMES)
def test_what_both_clients_have_is_part_of_the_contract(name):
    shared = public(class_of("cpu", name)) & public(class_of("pjrt", name))
    assert shared <= set(members(getattr(contract, name)))
