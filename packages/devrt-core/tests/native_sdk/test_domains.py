"""Native modules of one nanobind domain, which lose each other's classes."""

import sys
import types

import pytest

from devrt.errors import PluginContractError
from devrt.native.classes import register
from devrt.native.domains import domain_in

MARK = "works in one interpreter of a process only, and another one has it."


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Return a function that loads a module without classes, built with a domain."""

    def load(name, domain):
        module = types.ModuleType(name)
        file = tmp_path / f"{name}.abi3.so"
        file.write_bytes(b"\x7fELF\0" + f"{domain} {MARK}".encode() + b"\0")
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return load


@pytest.mark.parametrize("last", ["devrt_one._ext", "devrt_two._ext"])
def test_the_module_with_the_domain_of_another_package_is_blamed(loaded, last):
    for name in ("devrt_one._ext", "devrt_two._ext"):
        loaded(name, "devrt_one")
    (first,) = {"devrt_one._ext", "devrt_two._ext"} - {last}
    with pytest.raises(PluginContractError, match=f"{first}, loaded before, is of the") as caught:
        register(last, "Last")
    assert "Build devrt_two._ext with NB_DOMAIN devrt_two." in str(caught.value)


def test_another_prefix_is_named(loaded):
    loaded("devrt_three._ext", "devrt_three")
    with pytest.raises(PluginContractError, match="has no class ThreeClient: it was built with"):
        register("devrt_three._ext", "Three")


def test_a_module_without_a_file(monkeypatch):
    monkeypatch.setitem(sys.modules, "devrt_four", types.ModuleType("devrt_four"))
    with pytest.raises(PluginContractError, match="another CLASS_PREFIX"):
        register("devrt_four", "Four")


def test_large_libraries_are_read_in_linear_time():
    """A pattern with a repeat before the words was tried at each of 64 MiB of letters."""
    assert domain_in(b"a" * (64 << 20)) == ""
    assert domain_in(b"a" * (64 << 20) + b"\0devrt_five " + MARK.encode()) == "devrt_five"
