"""Arrays that one transfer server offers and another pulls, both of this process."""

import datetime
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devrt
from devrt.errors import (
    ClosedError,
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
    StatusCode,
    UnimplementedError,
)
from devrt.experimental import transfer
from devrt.layout import Format, Layout
from devrt.sharding import NamedSharding, SingleDeviceSharding
from devrt.sharding import PartitionSpec as P

DTYPES = [
    *(np.dtype(name) for name in ("bool", "int8", "uint16", "int32", "float16", "float64")),
    *(np.dtype(name) for name in ("complex64", ml_dtypes.bfloat16, ml_dtypes.int4)),
    np.dtype(ml_dtypes.float8_e4m3fn),
]
SPECS = [P(), P("a"), P(None, "b"), P("b", "a"), P(("a", "b")), P("a", "b")]


@pytest.fixture(scope="module")
def pair(client):
    """A server, and a connection of another to it."""
    with transfer.start_transfer_server(client, token="t") as server:
        other = transfer.start_transfer_server(client, token="t")
        with other, other.connect(server.address()) as connection:
            yield server, connection


@pytest.fixture(scope="module")
def small_requests(client):
    """The same, with a server that gives some elements at a time, and none with the lease."""
    server = transfer.start_transfer_server(client, transfer_size=100)
    with server, server.connect(server.address()) as connection:
        yield server, connection


def put(client, value):
    return devrt.device_put(np.asarray(value), client.devices()[0])


def described(x, **more):
    return devrt.ShapeDtypeStruct(x.shape, x.dtype, **more)


def test_a_tree_is_pulled(client, pair):
    server, connection = pair
    given_tree = {"w": put(client, np.arange(6.0).reshape(2, 3)), "b": [put(client, np.int8(3))]}
    offer = server.await_pull(1, given_tree)
    assert not offer.is_pulled
    wanted = {
        "w": described(given_tree["w"], sharding=SingleDeviceSharding(client.devices()[2])),
        "b": [described(given_tree["b"][0])],
    }
    pulled = connection.pull(1, wanted)
    offer.wait(10)
    assert offer.is_pulled
    assert np.asarray(pulled["w"]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert pulled["w"].device == client.devices()[2]
    assert pulled["w"].committed
    assert int(pulled["b"][0]) == 3
    assert pulled["b"][0].device == client.devices()[0]
    assert connection.pull(2, []) == []


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_array_arrives_as_it_was(client, mesh, pair, small_requests, data):
    server, connection = data.draw(st.sampled_from([pair, small_requests]))
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 4, 8, 12]), min_size=0, max_size=3)))
    fits = [spec for spec in SPECS if _fits(spec, shape)]
    source, target = data.draw(st.sampled_from(fits)), data.draw(st.sampled_from(fits))
    raw = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, shape)
    x = devrt.device_put(raw.astype(dtype), NamedSharding(mesh, source))
    server.await_pull(3, [x])
    sharding = NamedSharding(mesh, target)
    (pulled,) = connection.pull(3, [described(x, sharding=sharding)])
    assert pulled.sharding == sharding
    assert pulled.dtype == dtype
    np.testing.assert_array_equal(np.asarray(pulled), raw.astype(dtype))
    for shard in pulled.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), raw.astype(dtype)[shard.index])


def _fits(spec, shape):
    sizes = {"a": 2, "b": 2}
    if len(spec) > len(shape):
        return False
    counts = [
        int(np.prod([sizes[axis] for axis in (entry if isinstance(entry, tuple) else (entry,))]))
        if entry
        else 1
        for entry in spec
    ]
    return all(size % count == 0 for size, count in zip(shape, counts, strict=False))


def test_large_arrays_come_over_several_connections_in_pieces(client, mesh, pair):
    server, connection = pair
    x = put(client, np.arange(12 << 20, dtype=np.int32).reshape(3, -1))
    for sharding in (SingleDeviceSharding(client.devices()[0]), NamedSharding(mesh, P(None, "b"))):
        server.await_pull(4, x)
        pulled = connection.pull(4, described(x, sharding=sharding))
        np.testing.assert_array_equal(np.asarray(pulled), np.asarray(x))
    assert len(connection._peer._idle[server.address()]) > 1


def test_what_is_received_becomes_the_array_without_a_copy(client, mesh, pair):
    server, connection = pair
    x = put(client, np.arange(1 << 20, dtype=np.float32))
    former = [device.memory_stats()["bytes_in_use"] for device in client.devices()]
    server.await_pull(5, x)
    pulled = connection.pull(5, described(x, sharding=NamedSharding(mesh, P("a"))))
    assert [device.memory_stats()["bytes_in_use"] for device in client.devices()] == former
    assert len(pulled.addressable_shards) == 4
    del x
    copied = devrt.device_put(np.zeros(1 << 20, np.float32), NamedSharding(mesh, P("a")))
    assert [device.memory_stats()["bytes_in_use"] for device in client.devices()] != former
    del copied


def test_a_pull_waits_for_its_offer(client, pair):
    server, connection = pair
    x = put(client, [1, 2])
    with ThreadPoolExecutor() as threads:
        pulled = threads.submit(connection.pull, 6, x, timeout=60)
        server.await_pull(6, x).wait(60)
        assert np.asarray(pulled.result(60)).tolist() == [1, 2]


def test_an_offer_that_is_not_there_and_one_that_was_pulled(client, pair):
    server, connection = pair
    x = put(client, [1.5])
    soon = datetime.datetime.now(datetime.UTC)
    with pytest.raises(DeadlineExceededError, match=r"uuid 7 .*nothing is offered"):
        connection.pull(7, x, timeout=soon + datetime.timedelta(seconds=0.2))
    server.await_pull(7, x)
    with pytest.raises(DistributedError, match=r"ALREADY_EXISTS.*uuid 7"):
        server.await_pull(7, x)
    connection.pull(7, x)
    with pytest.raises(DistributedError, match="uuid 7 was pulled") as caught:
        connection.pull(7, x)
    assert caught.value.code == StatusCode.FAILED_PRECONDITION
    server.await_pull(7, x)
    assert float(connection.pull(7, x)[0]) == 1.5


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([devrt.ShapeDtypeStruct((2, 3), "float32")], r"float64\[2, 3\], and float32\[2, 3\]"),
        ([devrt.ShapeDtypeStruct((3, 2), "float64")], r"float64\[2, 3\], and float64\[3, 2\]"),
        ([devrt.ShapeDtypeStruct((2, 3), "float64")] * 2, "has 1 arrays, and 2"),
    ],
)
def test_other_arrays_than_are_offered_are_refused_and_stay(client, pair, wanted, words):
    server, connection = pair
    x = put(client, np.ones((2, 3)))
    offer = server.await_pull(8, [x])
    with pytest.raises(InvalidArgumentError, match=words):
        connection.pull(8, wanted)
    assert not offer.is_pulled
    connection.pull(8, [x])
    offer.wait(60)
    assert offer.is_pulled


def test_offers_end(client, pair):
    server, connection = pair
    x = put(client, [1])
    offer = server.await_pull(9, x)
    with pytest.raises(DeadlineExceededError, match="nobody pulled"):
        offer.wait(0)
    offer.withdraw()
    offer.withdraw()
    with pytest.raises(ClosedError, match="uuid 9 was withdrawn"):
        offer.wait(10)
    with pytest.raises(DistributedError, match="was withdrawn"):
        connection.pull(9, x)
    late = server.await_pull(9, x, timeout=0.01)
    with pytest.raises(DeadlineExceededError, match="in the time of the offer"):
        late.wait(60)


def test_an_array_that_was_deleted_meanwhile(client, pair):
    server, connection = pair
    x, y = put(client, np.ones(3)), put(client, np.ones(3))
    offer = server.await_pull(10, [x])
    x.delete()
    with pytest.raises(DistributedError, match="deleted"):
        connection.pull(10, [y])
    assert not offer.is_pulled
    offer.withdraw()


def test_existing_arrays_are_filled(client, pair):
    server, connection = pair
    x = put(client, np.arange(12, dtype=np.int16).reshape(3, 4))
    whole, strided = np.zeros((3, 4), np.int16), np.zeros((3, 8), np.int16)
    former = put(client, np.zeros((3, 4), np.int16))
    server.await_pull(11, [x, x, x])
    out = connection.pull_into(11, [whole, strided[:, ::2], former])
    assert out[0] is whole
    for filled in (whole, strided[:, ::2], np.asarray(out[2])):
        np.testing.assert_array_equal(filled, np.asarray(x))
    assert not strided[:, 1::2].any()
    assert former.is_deleted()
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="read-only"):
        connection.pull_into(11, read_only)
    with pytest.raises(InvalidTypeError, match="ShapeDtypeStruct"):
        connection.pull_into(11, described(x))


def test_arrays_that_are_to_be_replaced_stay_where_the_offer_is_another(client, pair):
    server, connection = pair
    x, former = put(client, np.ones(3)), put(client, np.zeros(4))
    server.await_pull(12, x)
    with pytest.raises(InvalidArgumentError):
        connection.pull_into(12, former)
    assert not former.is_deleted()
    connection.pull(12, x)


def test_values_that_are_none(client, pair):
    server, connection = pair
    x = put(client, [1])
    for uuid, kind in ((-1, InvalidArgumentError), (1 << 64, InvalidArgumentError)):
        with pytest.raises(kind, match="uuid"):
            server.await_pull(uuid, x)
    with pytest.raises(InvalidTypeError, match="uuid"):
        connection.pull("1", x)
    with pytest.raises(InvalidTypeError, match="timeout"):
        connection.pull(1, x, timeout="soon")
    with pytest.raises(InvalidTypeError, match="device_put"):
        server.await_pull(13, [np.ones(3)])
    with pytest.raises(InvalidTypeError, match="ShapeDtypeStruct"):
        connection.pull(13, [3])
    with pytest.raises(InvalidTypeError, match="allow_remote must be True or False"):
        transfer.start_transfer_server(client, allow_remote="False")
    column_major = Format(Layout((1, 0)), SingleDeviceSharding(client.devices()[0]))
    with pytest.raises(UnimplementedError, match="layout"):
        connection.pull(13, devrt.ShapeDtypeStruct((2, 2), "float32", sharding=column_major))
    with pytest.raises(InvalidArgumentError, match="process 1"):
        server.connect(1)
    with pytest.raises(InvalidArgumentError, match="no address"):
        server.connect("nowhere")
    for wrong in ({"transfer_size": 0}, {"max_num_parallel_copies": 0}):
        with pytest.raises(InvalidArgumentError, match="positive"):
            transfer.start_transfer_server(client, **wrong)


def test_many_arrays_are_pulled_together(client, pair, small_requests):
    arrays = [put(client, np.full(3, number)) for number in range(2000)]
    for server, connection in (pair, small_requests):
        server.await_pull(14, arrays)
        pulled = connection.pull(14, arrays)
        assert [int(x[1]) for x in map(np.asarray, pulled)] == list(range(2000))


def test_pulls_of_several_threads_go_on_together(client, pair):
    server, connection = pair
    arrays = [put(client, np.full(100_000, number)) for number in range(8)]
    offers = [server.await_pull(20 + number, x) for number, x in enumerate(arrays)]
    with ThreadPoolExecutor(8) as threads:
        pulled = threads.map(connection.pull, range(20, 28), arrays)
        assert [int(np.asarray(x)[-1]) for x in pulled] == list(range(8))
    assert all(offer.is_pulled for offer in offers)
