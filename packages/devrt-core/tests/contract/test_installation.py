"""What messages say how to install: one wording, and commands that work from the checkout."""

import pytest

from devrt.contract.installation import how_to_install, install_command, name_of
from devrt.plugins.discovery.known import (
    advice_for,
    advice_for_topologies,
    command_for,
    command_for_module,
    wheels_for_topology,
)


@pytest.mark.parametrize(
    ("requirements", "command"),
    [
        (["devrt-cpu"], "pip install ./packages/devrt-cpu"),
        (["devrt-cpu[xla]"], 'pip install "./packages/devrt-cpu[xla]"'),
        (["devrt-core", "libtpu"], "pip install ./packages/devrt-core libtpu"),
        (["nanobind-backend>=1.0"], 'pip install "nanobind-backend>=1.0"'),
        (["devrt-acme"], "pip install devrt-acme"),
    ],
)
def test_our_own_distributions_come_from_the_checkout(requirements, command):
    assert install_command(*requirements) == command


def test_a_message_says_where_the_command_works():
    assert how_to_install("devrt-cpu") == "pip install ./packages/devrt-cpu (in devrt's checkout)"
    assert how_to_install("scipy", options="--upgrade") == "pip install --upgrade scipy"


def test_what_is_of_no_use_alone_is_installed_with_what_it_needs():
    assert command_for("devrt-cuda") == (
        'pip install ./packages/devrt-tpu "./packages/devrt-cuda[xla]"'
    )
    assert advice_for_topologies("devrt-cuda") == (
        'pip install ./packages/devrt-tpu "./packages/devrt-cuda[compile]" (in devrt\'s checkout)'
    )
    assert advice_for_topologies("devrt-rocm") == advice_for("devrt-rocm")
    assert advice_for("devrt-rocm").endswith("./packages/devrt-rocm (in devrt's checkout)")


@pytest.mark.parametrize(
    ("name", "wheels"),
    [
        ("h100:8", {"cuda": "devrt-cuda"}),
        ("v5e:2x2", {"tpu": "devrt-tpu"}),
        ("acme:1", {}),
    ],
)
def test_the_name_of_a_topology_tells_what_describes_it(name, wheels):
    assert wheels_for_topology(name) == wheels


def test_a_missing_module_is_installed_by_its_requirement(plugins, write_distribution):
    info = write_distribution(plugins.path, "fake-needy", "")
    with (info / "METADATA").open("a") as file:
        file.write("Requires-Dist: Other-Thing>=2\nRequires-Dist: extra-thing; extra == 'x'\n")
    assert command_for_module("fake-needy", "other_thing.sub") == 'pip install "Other-Thing>=2"'
    again = "pip install --force-reinstall fake-needy"
    assert command_for_module("fake-needy", "thing") == again
    assert command_for_module("not-installed", "x") == "pip install --force-reinstall not-installed"


def test_a_requirement_begins_with_a_name():
    assert [name_of(text) for text in ("a-b[x]>=1", "a.b", "a_b ; x")] == ["a-b", "a.b", "a_b"]
