"""Clients that claim what they cannot do, or do what they deny."""

import textwrap

import pytest

from devrt.testing.conformance import Status, conform
from support import xla_cpu_library

pytest.importorskip("devrt_acme", reason="needs the example backend")

ACME = """
from devrt.contract import Capabilities
from devrt_acme.client import AcmeClient

class Faulty(AcmeClient):
    platform = "one"
"""
CPU = """
import dataclasses
from devrt_cpu import make_cpu_client

def changed(**known):
    client = make_cpu_client(num_devices=2)
    kind = type(client)  # the native module's: no other class can be what it makes
    can = kind.capabilities.fget
    kind.capabilities = property(lambda self: dataclasses.replace(can(self), **known))
    return client
"""
TAKES_LAYOUT = """
def buffer_from_pyval(self, argument, *given, layout=None, **named):
    return AcmeClient.buffer_from_pyval(self, argument, *given, **named)
"""


def faulty(members):
    return ACME + textwrap.indent(members, "    ")


def claims(**known):
    return f"capabilities = property(lambda self: Capabilities.of(self, **{known}))\n"


def result(plugins, case, extra, make="return Faulty(2)", platform="one"):
    plugins.add(platform, extra=extra, make=make)
    (found,) = conform(f"{platform}@fake-{platform}", cases=[case]).results
    return found


@pytest.mark.parametrize(
    ("case", "members", "came"),
    [
        ("layouts_are_taken", claims(layouts=True), "unexpected keyword argument"),
        ("layouts_are_taken", claims(layouts=True) + TAKES_LAYOUT, "(2, 1, 0)"),
        ("absence_of_layouts_is_reported", claims(layouts=False) + TAKES_LAYOUT, "a buffer"),
        ("streams_are_there", claims(streams=True), "UnimplementedError"),
    ],
    ids=["no layout", "a layout that is ignored", "a layout that is denied", "no stream"],
)
def test_what_is_claimed_is_not_there_or_the_reverse(plugins, case, members, came):
    found = result(plugins, f"transfer.{case}", faulty(members))
    assert found.status is Status.FAILED
    assert came in found.came


@pytest.mark.parametrize("case", ["layouts_are_taken", "streams_are_there"])
def test_what_is_not_claimed_is_not_tried(plugins, case):
    assert result(plugins, f"transfer.{case}", ACME).status is Status.NOT_APPLICABLE


@pytest.mark.engine
@pytest.mark.parametrize(
    ("case", "known", "came"),
    [
        ("execute.absence_of_donation_spares_arguments", "donation=False", "True"),
        ("shard.absence_of_collectives_is_reported", "collectives=False", "no error"),
    ],
)
def test_a_client_that_does_what_it_denies(plugins, case, known, came):
    xla_cpu_library()
    found = result(plugins, case, CPU, f"return changed({known})", "cpu")
    assert found.status is Status.FAILED
    assert came in found.came
