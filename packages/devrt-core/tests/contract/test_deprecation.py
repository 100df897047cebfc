"""What uses a deprecated name of the contract warns its author, and works."""

import warnings

import pytest

from devrt.contract import Client, deprecation
from devrt.contract.deprecation import Deprecation
from devrt.contract.members import members
from devrt.errors import ContractDeprecationWarning
from devrt.plugins import PluginRegistry
from devrt_acme.client import AcmeClient

GONE = Deprecation("1.3", "2.0", "define process_index")
WORDS = "deprecated since plugin contract 1.3 and goes with 2.0: define process_index"


@pytest.fixture
def deprecate(monkeypatch):
    def deprecate(*names):
        monkeypatch.setattr(deprecation, "DEPRECATED", dict.fromkeys(names, GONE))

    return deprecate


def test_a_class_that_defines_a_deprecated_member(deprecate):
    deprecate("Client.task_id")
    with pytest.warns(
        ContractDeprecationWarning, match=rf"Old uses Client\.task_id.*{WORDS}"
    ) as at:

        class Old(AcmeClient):
            def task_id(self):
                return 0

    assert at[0].filename == __file__
    assert Old(1).task_id() == 0


def test_a_class_that_inherits_it_does_not_warn(deprecate):
    deprecate("Client.task_id")

    class New(AcmeClient):
        pass

    assert New(1).task_id() == 0


def test_a_registered_class_warns_of_its_own_members_only(deprecate):
    deprecate("Client.task_id", "Client.host_id")
    needed = {name: lambda self: None for name, is_needed in members(Client).items() if is_needed}
    with pytest.warns(ContractDeprecationWarning, match=r"uses Client\.task_id") as caught:
        Client.register(type("Native", (), {**needed, "task_id": lambda self: 0}))
    assert len(caught) == 1  # host_id was given to it


@pytest.mark.parametrize("name", ["ClientFactory.aliases", "devrt_client_factories"])
def test_a_plugin_that_uses_a_deprecated_field_or_hook(plugins, deprecate, name):
    plugins.add("acme2", aliases=("fast",))
    deprecate(name)
    with pytest.warns(ContractDeprecationWarning, match=f"plugin fake-acme2 1.0 uses {name}"):
        plugin = PluginRegistry(plugins.refs).load(plugins.ref("acme2"))
    assert plugin.client_factory().aliases == ("fast",)


def test_a_field_that_is_left_out_does_not_warn(plugins, deprecate):
    plugins.add("acme2")
    deprecate("ClientFactory.describe")
    assert PluginRegistry(plugins.refs).load(plugins.ref("acme2")).client_factory()


def test_users_of_a_plugin_do_not_see_it(deprecate):
    deprecate("old")
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)  # as Python has it
        deprecation.warn_of_use(["old"], "plugin x")
    assert seen == []


def test_what_is_deprecated_follows_the_policy():
    for name, row in deprecation.DEPRECATED.items():
        since, gone = (tuple(map(int, v.split("."))) for v in (row.since, row.gone))
        assert gone == (since[0] + 1, 0), f"{name} goes with the next major version"
        assert row.instead.strip(".") == row.instead != "", name
