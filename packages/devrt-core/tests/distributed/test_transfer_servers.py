"""Transfer servers: where they listen, what they bound, and when they end."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import devrt
from devrt import xla_client
from devrt.contract import transfer_server_of
from devrt.distributed.transfer.offers import Offers
from devrt.errors import (
    ClosedError,
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
)
from devrt.experimental import transfer
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P


def put(client, value):
    return devrt.device_put(np.asarray(value), client.devices()[0])


def described(x, **more):
    return devrt.ShapeDtypeStruct(x.shape, x.dtype, **more)


def test_closing_either_side_ends_a_pull_under_way(client):
    x = put(client, [1])
    for closes, kind in (("server", PeerLostError), ("connection", ClosedError)):
        with transfer.start_transfer_server(client) as server:
            connection = server.connect(server.address())
            with ThreadPoolExecutor() as threads:
                pulled = threads.submit(connection.pull, 1, x, timeout=120)
                {"server": server, "connection": connection}[closes].close()
                assert type(pulled.exception(60)) is kind
            connection.close()


def test_a_closed_server_offers_nothing(client):
    x = put(client, [1])
    server = transfer.start_transfer_server(client)
    offer = server.await_pull(1, x)
    server.close()
    server.close()
    with pytest.raises(ClosedError, match="ended with its server"):
        offer.wait(10)
    with pytest.raises(ClosedError, match="closed"):
        server.await_pull(2, x)


def test_an_address_that_is_taken_and_one_that_others_reach(client):
    with (
        transfer.start_transfer_server(client) as server,
        pytest.raises(DistributedError, match="cannot listen"),
    ):
        transfer.start_transfer_server(client, server.address())
    for more, words in (({}, "allow_remote"), ({"allow_remote": True}, "needs mTLS files")):
        with pytest.raises(InvalidArgumentError, match=words):
            transfer.start_transfer_server(client, "[::]:0", **more)
    with pytest.raises(InvalidArgumentError, match="wants certificates"):
        transfer.start_transfer_server(client, verify_secure_credentials=True)


@contextlib.contextmanager
def on_three_addresses(client):
    """Yield a server, a connection to it, and an array that it offers and that takes all three."""
    further = ["127.0.0.1:0"] * 2
    server = transfer.start_transfer_server(client, "127.0.0.1:0", further)
    with server, server.connect(server.address()) as connection:
        x = put(client, np.arange(3 << 20))
        server.await_pull(1, x)
        yield server, connection, x


def test_further_addresses_carry_the_elements(client):
    with on_three_addresses(client) as (_, connection, x):
        np.testing.assert_array_equal(np.asarray(connection.pull(1, x)), np.asarray(x))
        used = {address for address, streams in connection._peer._idle.items() if streams}
    assert len(used) == 3


def test_an_address_that_cannot_be_reached_keeps_no_connection(client):
    with on_three_addresses(client) as (server, connection, x):
        server._server._listeners[-1].close()
        for _ in range(2):
            with pytest.raises(PeerLostError):
                connection.pull(1, x, timeout=60)
        assert not connection._peer._busy


def test_what_was_pulled_is_over_before_another_may_pull_it():
    offers, free = Offers(), []
    offer, end = offers.add(1, (), None), offers.end

    def ended(*given):
        """Look whether another thread could take the offer now."""
        thread = threading.Thread(target=lambda: free.append(offers._changed.acquire(False)))
        thread.start()
        thread.join()
        end(*given)

    offers.end = ended
    offers.release(offers.lease(1, 0), is_done=True)
    offer.wait(0)
    assert free == [False]
    with pytest.raises(DistributedError, match="was pulled"):
        offers.lease(1, 0)


def test_requests_are_as_small_as_the_server_wants_them(client):
    with transfer.start_transfer_server(client, transfer_size=1000) as server:
        with server.connect(server.address()) as connection:
            x = put(client, np.arange(600.0).reshape(20, 30))
            server.await_pull(1, x)
            np.testing.assert_array_equal(np.asarray(connection.pull(1, x)), np.asarray(x))
        assert server.refused == 0


def test_copies_for_others_are_bounded(client, mesh):
    bounds = transfer.TransferBounds(copied_bytes=1000, stall_seconds=6)
    x = put(client, np.arange(64.0).reshape(8, 8))
    columns = described(x, sharding=NamedSharding(mesh, P(None, "b")))
    server = transfer.start_transfer_server(client, transfer_size=300, bounds=bounds)
    with server, server.connect(server.address()) as connection:
        budget = server._server._copies
        server.await_pull(1, x)
        with ThreadPoolExecutor() as threads:
            budget.take(900, 0)
            pulled = threads.submit(connection.pull, 1, columns)
            assert isinstance(pulled.exception(60), (DistributedError, DeadlineExceededError))
        budget.give_back(900)
        np.testing.assert_array_equal(np.asarray(connection.pull(1, columns)), np.asarray(x))
        assert budget._used == 0
        budget.take(5000, 0)  # one thread alone may have more
        with pytest.raises(DistributedError, match="5000 of 1000") as caught:
            budget.take(1, 0)
        assert caught.value.code == StatusCode.RESOURCE_EXHAUSTED
        budget.take(0, 0)  # what needs no copy does not wait


def test_a_server_comes_with_the_client_that_it_is_requested_for():
    factory = transfer.make_transfer_server_interface_factory(token="t")
    with xla_client.make_cpu_client(num_devices=1, transfer_server_factory=factory) as client:
        server = transfer_server_of(client)
        x = put(client, [1, 2, 3])
        server.await_pull(1, x)
        with server.connect(server.address()) as connection:
            assert np.asarray(connection.pull(1, x)).tolist() == [1, 2, 3]
    with xla_client.make_cpu_client(num_devices=1) as client:
        assert transfer_server_of(client) is None


def test_a_client_is_closed_where_its_server_cannot_be_made():
    made = []

    def fails(client):
        made.append(client)
        raise ValueError("no server")

    with pytest.raises(ValueError, match="no server"):
        xla_client.make_cpu_client(num_devices=1, transfer_server_factory=fails)
    assert made[0].is_closed


def test_the_server_of_a_client_ends_with_it():
    factory = transfer.make_transfer_server_interface_factory()
    client = xla_client.make_cpu_client(num_devices=1, transfer_server_factory=factory)
    server = transfer_server_of(client)
    client.close()
    del client
    with pytest.raises(ClosedError):
        server._server.offers.add(1, [], None)
