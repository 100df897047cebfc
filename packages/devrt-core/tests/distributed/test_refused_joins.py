"""A process that cannot join learns why: what is at the address, or in what it differs."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import distributed, xla_client
from devrt.distributed.client import DistributedRuntimeClient, Times
from devrt.distributed.security import Security
from devrt.errors import DeadlineExceededError, DistributedError, InvalidArgumentError, StatusCode
from etcd_servers import EtcdServers
from support import together

LATE = 1.5  # seconds after which a join is


def joining(address, number=1, *, seconds=30, size=None, **security):
    times = Times(rpc=30, connect=seconds, shutdown=30, heartbeat=30)
    return DistributedRuntimeClient(
        address, number, times, Security(**security), num_processes=size
    )


@contextmanager
def listening(greeting=None):
    """Listen as another program does: give its greeting, or none, and keep the connection."""
    with socket.create_server(("localhost", 0)) as server:
        kept = []

        def serve():
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return
                kept[-1].sendall(greeting)

        thread = threading.Thread(target=serve)
        if greeting is not None:
            thread.start()
        yield f"localhost:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        if greeting is not None:
            thread.join()
        for one in kept:
            one.close()


def test_nobody_listens():
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    with pytest.raises(DeadlineExceededError, match=f"{address}.*Connection refused"):
        joining(address, seconds=LATE).connect()


def test_something_listens_that_does_not_answer():
    with listening() as address, pytest.raises(DeadlineExceededError) as caught:
        joining(address, seconds=LATE).connect()
    assert address in str(caught.value)
    assert "does not answer as a coordination service" in str(caught.value)


def test_another_program_listens():
    with listening(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        with pytest.raises(DeadlineExceededError) as caught:
            joining(address, seconds=LATE).connect()
        assert address in str(caught.value)
        assert "another program than devrt's service answers" in str(caught.value)


def check_size(address):
    clients = [joining(address, number, size=2) for number in range(2)]
    with pytest.raises(InvalidArgumentError, match=r"num_processes=3.*began this job with 2"):
        joining(address, 1, size=3).connect()
    together(lambda client: client.connect(), clients, timeout=30)  # nothing is lost by it
    together(lambda client: client.shutdown(), clients, timeout=30)


def test_a_process_that_was_has_another_size():
    with xla_client.get_distributed_runtime_service("localhost:0", 2) as service:
        check_size(service.address)


def test_a_process_that_was_has_another_size_at_etcd():
    with closing(EtcdServers(1)) as servers:
        address = servers.address("test/size")
        with xla_client.get_distributed_runtime_service(address, 2, heartbeat_timeout=30):
            check_size(address)


@pytest.mark.parametrize(
    ("of_service", "given", "words"),
    [
        (None, "abc", "needs no token"),
        ("abc", None, "needs the job's token"),
        ("abc", "abd", "job"),
    ],
)
def test_a_token_that_is_not_the_service_s(of_service, given, words):
    with xla_client.get_distributed_runtime_service("localhost:0", 2, token=of_service) as service:
        with pytest.raises(DistributedError, match=words) as caught:
            joining(service.address, token=given).connect()
        assert caught.value.code is StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("token", ["", "two\nlines", "señal"])
def test_a_token_that_no_header_can_have(token):
    with pytest.raises(InvalidArgumentError, match="token must have") as caught:
        distributed.initialize("localhost:0", 1, 0, token=token)
    assert not token or token not in str(caught.value)
    assert not distributed.is_initialized()


def test_files_that_are_no_certificates(tmp_path, capfd):
    file = tmp_path / "some.pem"
    file.write_text("no PEM")
    files = dict.fromkeys(("mtls_cert_file", "mtls_key_file", "mtls_ca_file"), str(file))
    with pytest.raises(InvalidArgumentError, match="mTLS files cannot be used"):
        xla_client.get_distributed_runtime_service("localhost:0", 2, **files)
    with pytest.raises(InvalidArgumentError, match="mTLS files cannot be used"):
        joining("localhost:1", **files).connect()
    assert capfd.readouterr().err == ""  # gRPC has nothing to log


def test_a_process_that_meets_the_service_of_an_ended_job_joins_the_next():
    service = xla_client.get_distributed_runtime_service("localhost:0", 1)
    client = joining(service.address, 0)
    service.end_soon()  # as the process that has it leaves
    with pytest.raises(DistributedError, match="its job has ended"):
        joining(service.address, 0, seconds=LATE).connect()

    with ThreadPoolExecutor(1) as thread:
        joined = thread.submit(client.connect)
        service.shutdown()
        with xla_client.get_distributed_runtime_service(service.address, 1):
            joined.result(timeout=60)
            client.shutdown()


def test_jobs_follow_each_other_in_the_same_processes(launch):
    text = """
    for number in range(5):
        distributed.shutdown()
        distributed.initialize(initialization_timeout=60)
        distributed.global_state.client.wait_at_barrier(f"b{number}", 60_000)
    print("five jobs")
    """
    printed, done = launch(3, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert printed == [["five jobs"]] * 3
