"""Values that no job takes: typed errors of the caller's own, before anything is sent."""

import math
import socket

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import distributed, xla_client
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
)

service_of = xla_client.get_distributed_runtime_service
client_of = xla_client.get_distributed_runtime_client


def joined(**options):
    distributed.initialize("localhost:0", 1, 0, **options)


@pytest.fixture(scope="module")
def client():
    with service_of("localhost:0", 1, heartbeat_timeout=60) as service:
        made = client_of(service.address, 0, init_timeout=60, heartbeat_timeout=60)
        made.connect()
        yield made
        made.shutdown()


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda c: c.key_value_set(3, "x"), InvalidTypeError, "key must be a str"),
        (lambda c: c.key_value_set(b"k", "x"), InvalidTypeError, "key must be a str"),
        (lambda c: c.key_value_set("k", 3), InvalidTypeError, "value must be a str"),
        (lambda c: c.key_value_set("k", b"x"), InvalidTypeError, "value must be a str"),
        (lambda c: c.key_value_set("k", "\ud800"), InvalidArgumentError, "no text"),
        (lambda c: c.key_value_set_bytes("k", 3), InvalidTypeError, "must be bytes"),
        (lambda c: c.key_value_set_bytes("k", "x"), InvalidTypeError, "must be bytes"),
        (lambda c: c.key_value_try_get("\ud800"), InvalidArgumentError, "key is no text"),
        (lambda c: c.key_value_dir_get(None), InvalidTypeError, "key must be a str"),
        (lambda c: c.key_value_delete(1), InvalidTypeError, "key must be a str"),
        (lambda c: c.key_value_increment("n", 0.5), InvalidTypeError, "must be an integer"),
        (lambda c: c.key_value_increment("n", 1 << 63), InvalidArgumentError, "64 bits"),
        (lambda c: c.blocking_key_value_get("k", "soon"), InvalidTypeError, "timeout_in_ms"),
        (lambda c: c.blocking_key_value_get("k", math.nan), InvalidTypeError, "timeout_in_ms"),
        (lambda c: c.wait_at_barrier(4, 1000), InvalidTypeError, "barrier_id must be a str"),
        (lambda c: c.wait_at_barrier("b", 1000, "01"), InvalidTypeError, "process_ids"),
        (lambda c: c.wait_at_barrier("b", 1000, ["a"]), InvalidTypeError, "process_ids"),
        (lambda c: c.wait_at_barrier("b", 1000, [1 << 40]), InvalidArgumentError, "of no job"),
        (lambda c: c.get_live_nodes(3), InvalidTypeError, "process_ids"),
        (lambda c: c.key_value_set("k", "x", "no"), InvalidTypeError, "allow_overwrite"),
        (lambda c: c.key_value_set_bytes("k", b"x", 1 << 70), InvalidTypeError, "allow_overwrite"),
    ],
)
def test_calls_refuse_what_they_cannot_take(client, call, kind, words):
    with pytest.raises(kind, match=words):
        call(client)


@pytest.mark.parametrize("timeout", [-5, 0, 0.5])
def test_a_wait_without_time_is_over_at_once(client, timeout):
    with pytest.raises(DeadlineExceededError):
        client.blocking_key_value_get("absent", timeout)


@pytest.mark.parametrize("timeout", [10**30, math.inf, 1e300])
def test_a_wait_may_be_as_long_as_one_likes(client, timeout):
    client.key_value_set("there", "1", True)
    assert client.blocking_key_value_get("there", timeout) == "1"
    client.wait_at_barrier("long", timeout)


def test_a_value_that_is_no_text_is_named(client):
    client.key_value_set_bytes("binary/one", b"\xff")
    for call in (
        lambda: client.key_value_dir_get("binary"),
        lambda: client.key_value_try_get("binary/one"),
        lambda: client.blocking_key_value_get("binary/one", 1000),
    ):
        with pytest.raises(InvalidArgumentError, match="key 'binary/one' is no text of UTF-8"):
            call()


def test_an_address_of_ipv6_is_joined():
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    with service_of("[::1]:0", 1) as service:
        assert service.address.startswith("[::1]:")
        made = client_of(service.address, 0, init_timeout=20)
        made.connect()
        made.shutdown()


def _has_ipv6():
    with socket.socket(socket.AF_INET6) as one:
        try:
            one.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: service_of(3, 1), InvalidTypeError, "address must be a str"),
        (lambda: service_of("::1:0", 1), InvalidArgumentError, r"write \[::1\]:0"),
        (lambda: service_of("localhost:0", "2"), InvalidTypeError, "num_nodes"),
        (lambda: service_of("localhost:0", 1.5), InvalidTypeError, "num_nodes"),
        (lambda: service_of("localhost:0", 0), InvalidArgumentError, "num_nodes must be 1 to"),
        (lambda: service_of("localhost:0", 1 << 40), InvalidArgumentError, "num_nodes"),
        (lambda: service_of("localhost:0", 1, "x"), InvalidTypeError, "heartbeat_timeout"),
        (lambda: service_of("localhost:0", 1, -1), InvalidArgumentError, "negative"),
        (lambda: service_of("localhost:0", 1, token=5), InvalidTypeError, "token"),
        (lambda: client_of(None, 0), InvalidTypeError, "address must be a str"),
        (lambda: client_of("localhost:1", "2"), InvalidTypeError, "node_id"),
        (lambda: client_of("localhost:1", -1), InvalidArgumentError, "node_id is -1"),
        (lambda: client_of("localhost:1", 1 << 40), InvalidArgumentError, "node_id"),
        (lambda: client_of("localhost:1", 0, "x"), InvalidTypeError, "rpc_timeout"),
        (lambda: client_of("localhost:1", 0, token=b"t"), InvalidTypeError, "token"),
        *(
            (lambda ids=ids: joined(local_device_ids=ids), kind, "local_device_ids")
            for ids, kind in (
                ("x", InvalidTypeError),
                (["0"], InvalidTypeError),
                (1.5, InvalidTypeError),
                ([-1], InvalidArgumentError),
                ([0, 0], InvalidArgumentError),
                ([], InvalidArgumentError),
            )
        ),
        (lambda: joined(coordinator_bind_address=5), InvalidTypeError, "bind_address"),
        (lambda: joined(coordinator_bind_address=""), InvalidArgumentError, "no address"),
        (lambda: joined(shutdown_timeout_seconds=0), InvalidArgumentError, "more than 0"),
        (lambda: joined(heartbeat_timeout_seconds=0), InvalidArgumentError, "more than 0"),
        (lambda: joined(recoverable="x"), InvalidTypeError, "True or False"),
        *(
            (
                lambda make=make, name=name, value=value: make(**{name: value}),
                InvalidTypeError,
                name,
            )
            for make, names in (
                (joined, ("allow_remote", "abort_on_loss", "missed_heartbeat_callback")),
                (joined, ("journal", "verify_secure_credentials", "mtls_peer_uri_prefix")),
                (lambda **x: service_of("localhost:0", 1, **x), ("allow_remote", "recoverable")),
                (lambda **x: service_of("localhost:0", 1, **x), ("journal", "bounds", "etcd_user")),
                (lambda **x: service_of("localhost:0", 1, **x), ("mtls_peer_uri_prefix",)),
                (lambda **x: client_of("localhost:1", 0, **x), ("use_compression", "recoverable")),
                (lambda **x: client_of("localhost:1", 0, **x), ("shutdown_on_destruction",)),
                (lambda **x: client_of("localhost:1", 0, **x), ("missed_heartbeat_callback",)),
                (lambda **x: client_of("localhost:1", 0, **x), ("abort_on_loss", "mtls_ca_file")),
            )
            for name in names
            for value in (5, [1])
        ),
        (lambda: joined(local_device_ids=True), InvalidTypeError, "local_device_ids"),
        (lambda: joined(journal="a\0b", recoverable=True), InvalidArgumentError, "journal is no"),
        (
            lambda: distributed.initialize("localhost:1", 2, 1, initialization_timeout="x"),
            InvalidTypeError,
            "initialization_timeout",
        ),
    ],
)
def test_jobs_that_cannot_be_are_refused(make, kind, words):
    with pytest.raises(kind, match=words) as caught:
        make()
    assert "b't'" not in str(caught.value)  # a token is shown to nobody


def test_etcd_that_is_not_there_is_waited_for_as_long_as_a_job_is():
    with pytest.raises(DistributedError, match="for 1 s"):
        distributed.initialize("etcd://localhost:1/p", 1, 0, initialization_timeout=1)
