"""What is read of compiled modules, which are written here field by field."""

import re

import pytest

from devrt.compiling.hlo import ELEMENT_TYPE_CODES, ELEMENT_TYPE_NAMES, HloModule, refuse_feed
from devrt.contract.op_sharding import OpSharding
from devrt.dtypes import by_name
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.layout import Layout
from devrt.wire.protobuf import bytes_field, int_field, packed

F32, PRED, TUPLE, TOKEN = 11, 1, 13, 17


def shape(kind, dims=(), order=None, *elements):
    layout = b"" if order is None else bytes_field(5, packed(1, order))
    parts = b"".join(bytes_field(4, element) for element in elements)
    return int_field(2, kind) + packed(3, dims) + parts + layout


def signature(parameters, result):
    return b"".join(bytes_field(1, p) for p in parameters) + bytes_field(2, result)


def instruction(opcode, target=""):
    made = bytes_field(1, b"name") + bytes_field(2, opcode.encode())
    return made + (bytes_field(28, target.encode()) if target else b"")


def module(*fields, opcodes=(), targets=()):
    made = [instruction(opcode) for opcode in opcodes]
    made += [instruction("custom-call", target) for target in targets]
    computation = b"".join(bytes_field(2, one) for one in made)
    return bytes_field(1, b"m") + bytes_field(3, computation) + b"".join(fields)


def read(*fields, **named):
    return HloModule.read(module(*fields, **named), with_config=False)


def test_the_signature_is_read():
    pair = shape(TUPLE, (), None, shape(F32, (8,), (0,)), shape(PRED))
    found = read(bytes_field(4, signature([shape(F32, (2, 3), (0, 1)), shape(TOKEN)], pair)))
    first, token = found.parameters
    assert (found.name, first.code, first.shape) == ("m", by_name("float32").code, (2, 3))
    assert first.layout == Layout((0, 1))
    assert token.code is None
    assert [(r.code, r.shape) for r in found.results] == [(11, (8,)), (1, ())]


def test_layouts_are_those_of_the_configuration():
    inside = bytes_field(4, signature([shape(F32, (2, 3), (1, 0))], shape(F32)))
    in_force = signature([shape(F32, (2, 3), (0, 1))], shape(F32))
    whole = bytes_field(1, module(inside)) + bytes_field(2, bytes_field(1, in_force))
    assert HloModule.read(whole).parameters[0].layout == Layout((0, 1))
    assert HloModule.read(bytes_field(1, module(inside))).parameters[0].layout == Layout((1, 0))


def test_donations_are_those_of_aliases_and_of_donors():
    alias = bytes_field(1, int_field(2, 3)) + bytes_field(1, b"")
    donor = bytes_field(1, int_field(1, 2)) + bytes_field(1, int_field(1, 3))
    assert read(bytes_field(8, alias), bytes_field(18, donor)).donated == (0, 2, 3)


def test_shardings_are_read_of_arguments_and_of_results_in_a_tuple():
    tiled = int_field(1, 3) + packed(3, (2, 1)) + packed(4, (1, 0))
    both = int_field(1, 2) + bytes_field(5, tiled) + bytes_field(5, b"")
    found = read(bytes_field(14, tiled), bytes_field(12, both))
    assert found.parameter_shardings == (OpSharding(3, (2, 1), (1, 0)),)
    assert found.result_shardings == (OpSharding(3, (2, 1), (1, 0)), OpSharding())
    assert read(bytes_field(12, tiled)).result_shardings == (OpSharding(3, (2, 1), (1, 0)),)


@pytest.mark.parametrize(
    ("opcode", "waits", "may_wait"),
    [
        *((name, True, True) for name in ("all-reduce", "all-gather-start", "all-to-all")),
        *((name, True, True) for name in ("collective-permute", "ragged-all-to-all")),
        *((name, False, True) for name in ("send", "recv-done", "infeed", "async-start")),
        *((name, False, False) for name in ("add", "partition-id", "while", "reduce")),
    ],
)
def test_whether_devices_wait_for_each_other(opcode, waits, may_wait):
    found = read(opcodes=["parameter", opcode])
    assert (found.is_collective, found.may_communicate) == (waits, may_wait)
    assert found.has_loop == (opcode == "while")


def test_custom_calls_are_named_once_and_may_communicate():
    found = read(targets=["b", "a", "b"])
    assert found.custom_calls == ("a", "b")
    assert (found.is_collective, found.may_communicate) == (False, True)


def test_what_waits_for_the_host_is_unloaded_and_refused():
    unloaded = []
    refuse_feed(read(opcodes=["add"]), "acme", lambda: unloaded.append(1))
    assert not unloaded
    with pytest.raises(UnimplementedError, match=r"'m' exchanges .* \(infeed\)") as caught:
        refuse_feed(read(opcodes=["outfeed", "infeed"]), "acme", lambda: unloaded.append(1))
    assert unloaded
    assert caught.value.platform == "acme"


def test_names_in_metadata_are_no_instructions():
    named = bytes_field(1, b"all-reduce.1") + bytes_field(2, b"add") + bytes_field(7, b"while")
    found = read(bytes_field(3, bytes_field(2, named)))
    assert found.opcodes == {"add"}


def test_instructions_that_matter_to_nobody_are_not_read():
    assert read(opcodes=["add", "sine"]).opcodes == frozenset()
    assert read(opcodes=["add", "while"]).opcodes == {"add", "while"}


def test_what_is_cut_is_read_or_refused():
    whole = module(bytes_field(4, signature([shape(F32, (8,))], shape(F32))), opcodes=["add"])
    refused = 0
    for cut in range(len(whole)):
        try:
            HloModule.read(whole[:cut], with_config=False)
        except InvalidArgumentError:
            refused += 1
    assert refused >= len(whole) - 4  # what is left ends between two fields


KINDS = {"s": "int", "u": "uint", "f": "float", "bf": "bfloat", "c": "complex"}


def test_element_types_have_the_numbers_of_the_table():
    for number, code in ELEMENT_TYPE_CODES.items():
        name = ELEMENT_TYPE_NAMES[number]
        kind, bits, rest = re.fullmatch(r"([a-z]+)(\d*)(.*)", name).groups()
        known = f"{KINDS[kind]}{bits}{rest and '_' + rest}" if kind != "pred" else "bool"
        assert by_name(known).code == code


def test_a_sharding_tells_the_whole_shape_and_where_a_shard_lies():
    columns = OpSharding(3, (1, 2, 2), (0, 2, 1, 3), True)
    assert columns.global_shape((4, 3)) == (4, 6)
    assert [columns.index_of((4, 6), at)[1].start for at in range(4)] == [0, 3, 0, 3]
    assert OpSharding().global_shape((4, 3)) == (4, 3)
    assert OpSharding().index_of((4, 3), 1) == (slice(0, 4), slice(0, 3))
    with pytest.raises(InvalidArgumentError, match="does not divide into"):
        columns.index_of((4, 5), 0)
