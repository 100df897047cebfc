"""Heap profiles, read back with the protobuf schema."""

import gzip

import numpy as np
import pytest

import devrt
from devrt import errors
from devrt.wire.pprof import read_profile
from devrt_cpu import make_cpu_client
from support import aligned

descriptor_pb2 = pytest.importorskip(
    "google.protobuf.descriptor_pb2", reason="protobuf, which reads profiles, is not installed"
)

# Message, field, number, type, repeated: what is public knowledge of pprof's profile.proto.
SCHEMA = """
ValueType type 1 int64 ; ValueType unit 2 int64
Label key 1 int64 ; Label str 2 int64 ; Label num 3 int64 ; Label num_unit 4 int64
Sample location_id 1 uint64 * ; Sample value 2 int64 * ; Sample label 3 Label *
Line function_id 1 uint64 ; Line line 2 int64
Location id 1 uint64 ; Location mapping_id 2 uint64 ; Location address 3 uint64
Location line 4 Line *
Function id 1 uint64 ; Function name 2 int64 ; Function system_name 3 int64
Function filename 4 int64 ; Function start_line 5 int64
Profile sample_type 1 ValueType * ; Profile sample 2 Sample * ; Profile location 4 Location *
Profile function 5 Function * ; Profile string_table 6 string * ; Profile time_nanos 9 int64
Profile default_sample_type 14 int64
"""


def message_class():
    from google.protobuf import descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    messages = {}
    for entry in SCHEMA.replace("\n", ";").split(";"):
        if not entry.strip():
            continue
        message, name, number, kind, *repeated = entry.split()
        if message not in messages:
            messages[message] = file.message_type.add(name=message)
        field = messages[message].field.add(name=name, number=int(number))
        field.label = 3 if repeated else 1
        types = {"int64": 3, "uint64": 4, "string": 9}
        field.type = types.get(kind, 11)
        if kind not in types:
            field.type_name = f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def decode(data):
    """Return the samples as (values, labels, frames), read with protobuf."""
    profile = message_class()()
    profile.ParseFromString(gzip.decompress(data))
    text = list(profile.string_table)
    assert text[0] == ""
    assert [(text[t.type], text[t.unit]) for t in profile.sample_type] == [
        ("objects", "count"),
        ("space", "bytes"),
    ]
    assert text[profile.default_sample_type] == "space"
    assert profile.time_nanos > 0
    functions = {f.id: (text[f.filename], text[f.name], f.start_line) for f in profile.function}
    places = {p.id: (*functions[p.line[0].function_id], p.line[0].line) for p in profile.location}
    assert 0 not in functions
    assert 0 not in places
    return [
        (
            tuple(sample.value),
            {text[label.key]: text[label.str] for label in sample.label},
            [places[i] for i in sample.location_id],
        )
        for sample in profile.sample
    ]


def keep(client, kind):
    return client.buffer_from_pyval(np.ones((3, 5)), client.devices()[1].memory(kind))


def test_profile_tells_what_lives_where():
    with make_cpu_client(num_devices=2, traceback_in_buffers="all") as client:
        held = [keep(client, "device") for _ in range(4)] + [keep(client, "pinned_host")]
        held.append(held[0].clone())
        keep(client, "device").delete()
        samples = decode(client.heap_profile())
        in_use = client.devices()[1].memory_stats()["bytes_in_use"]
    assert sum(values[1] for values, _, _ in samples) == in_use == 5 * 120
    assert sum(values[0] for values, _, _ in samples) == 6
    (values, labels, frames) = samples[0]
    line = keep.__code__.co_firstlineno + 1
    assert values == (4, 480)
    assert labels == {
        "device": "cpu:1",
        "memory_kind": "device",
        "array": "float64[3,5]",
        "owner": "client",
        "call_site": f"{__file__}:{line}",
    }
    assert frames[0] == (__file__, "keep", line - 1, line)
    assert all(name[0] != "<" for _, name, _, _ in frames)  # pprof would show nothing
    assert frames[1][1].endswith("<listcomp>") or frames[1][1].endswith("lives_where")
    assert {labels["memory_kind"] for _, labels, _ in samples} == {"device", "pinned_host"}


def test_lent_memory_is_reported_apart():
    source = aligned(4096, np.uint8)
    with make_cpu_client() as client:
        lent = client.buffer_from_pyval(source, host_buffer_semantics=2)
        ((values, labels, _),) = decode(client.heap_profile())
        assert (values, labels["owner"]) == ((1, 4096), "lender")
        del lent


def test_unnoted_buffers_are_counted_too():
    with make_cpu_client(traceback_in_buffers="off") as client:
        held = [client.buffer_from_pyval(np.zeros(2)) for _ in range(3)]
        ((values, labels, frames),) = decode(client.heap_profile())
        assert values == (3, 48)
        assert "call_site" not in labels
        assert frames == [("", "[not recorded]", 0, 0)]
        del held


def test_an_empty_profile_is_a_profile():
    with make_cpu_client() as client:
        assert decode(client.heap_profile()) == []
    with pytest.raises(errors.ClosedError):
        client.heap_profile()


def test_our_reader_agrees_with_protobuf():
    with make_cpu_client(num_devices=2, traceback_in_buffers="all") as client:
        held = [client.buffer_from_pyval(np.zeros(n, np.int8)) for n in range(5)]
        data = client.heap_profile()
        del held
    ours = [
        ((s.values["objects"], s.values["space"]), s.labels, [(f, fn, n) for fn, f, n in s.stack])
        for s in read_profile(data).samples
    ]
    theirs = [(v, labels, [(f, fn, n) for f, fn, _, n in fs]) for v, labels, fs in decode(data)]
    assert ours == theirs


def test_the_runtime_writes_a_profile(tmp_path):
    array = devrt.device_put(np.zeros(1 << 18, np.uint8))
    path = tmp_path / "heap.pb.gz"
    data = devrt.heap_profile(path, array.device.client)
    assert path.read_bytes() == data
    assert any(labels.get("call_site", "").startswith(__file__) for _, labels, _ in decode(data))


def test_code_without_a_function_is_named(tmp_path):
    path = tmp_path / "made.py"
    path.write_text("buffer = client.buffer_from_pyval(1)\n")
    with make_cpu_client(traceback_in_buffers="all") as client:
        space = {"client": client}
        exec(compile(path.read_text(), path, "exec"), space)
        data = client.heap_profile()
        ((_, _, frames),) = decode(data)
        assert frames[0] == (str(path), "[module]", 1, 1)  # pprof shows no "<module>"
        assert read_profile(data).samples[0].stack[0] == ("<module>", str(path), 1)
        space.clear()
