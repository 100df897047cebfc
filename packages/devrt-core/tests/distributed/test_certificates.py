"""Both sides of a connection known by certificates: who has none, or another's, is refused."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from certificates import certificates
from devrt import xla_client
from devrt.errors import (
    DeadlineExceededError,
    DevrtError,
    DistributedError,
    InvalidArgumentError,
)
from support import together


def test_only_certificates_of_the_job_join(tmp_path):
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    make = xla_client.get_distributed_runtime_service
    join = xla_client.get_distributed_runtime_client
    with make("localhost:0", 1, mtls_peer_uri_prefix="spiffe://job/", **ours) as service:
        with pytest.raises(DistributedError, match="UNAUTHENTICATED: this service needs cert"):
            join(service.address, 0, init_timeout=20).connect()
        with pytest.raises(DeadlineExceededError):  # the channel tries again until then
            join(service.address, 0, init_timeout=1, **others).connect()
        client = join(service.address, 0, init_timeout=20, **ours)
        client.connect()
        client.key_value_set("k", "v")
        client.shutdown()
    with (
        make("localhost:0", 1, mtls_peer_uri_prefix="spiffe://other/", **ours) as service,
        pytest.raises(DistributedError, match="UNAUTHENTICATED"),
    ):
        join(service.address, 0, init_timeout=20, **ours).connect()
    with pytest.raises(InvalidArgumentError, match="all of mtls_cert_file"):
        make("localhost:0", 1, mtls_cert_file=ours["mtls_cert_file"])


def test_certificates_that_are_renewed_count_for_new_connections(tmp_path):
    old, new = certificates(tmp_path / "old"), certificates(tmp_path / "new")
    used = {name: str(tmp_path / Path(file).name) for name, file in old.items()}
    for name, file in old.items():
        shutil.copy(file, used[name])
    make = xla_client.get_distributed_runtime_service
    join = xla_client.get_distributed_runtime_client
    with make("localhost:0", 1, **used) as service:
        first = join(service.address, 0, init_timeout=20, **old)
        first.connect()
        for name, file in new.items():
            shutil.copy(file, used[name])
        with pytest.raises(DeadlineExceededError):
            join(service.address, 0, init_timeout=1, **old).connect()
        with pytest.raises(DistributedError, match="ALREADY_EXISTS"):  # it gets as far as that
            join(service.address, 0, init_timeout=20, **new).connect()
        first.key_value_set("still", "connected")
        first.shutdown()
        second = join(service.address, 0, init_timeout=20, **new)
        second.connect()
        second.shutdown()


def test_connections_without_certificates_are_refused_where_that_is_wanted():
    make = xla_client.get_distributed_runtime_service
    join = xla_client.get_distributed_runtime_client
    for address in ("localhost:0", "etcd://localhost:1/job"):
        with pytest.raises(InvalidArgumentError, match="wants certificates"):
            make(address, 1, verify_secure_credentials=True)
        with pytest.raises(InvalidArgumentError, match="wants certificates"):
            join(address, 0, verify_secure_credentials=True)


SERVICE = """
import json, sys
from devrt import xla_client
files = json.loads(sys.argv[1])
service = xla_client.get_distributed_runtime_service(
    "localhost:0", 2, heartbeat_timeout=2, **files)
print(service.address, flush=True)
sys.stdin.read()
"""


def test_leaving_a_service_that_was_stopped_ends_with_the_heartbeat(tmp_path):
    files = certificates(tmp_path / "ours")
    command = [sys.executable, "-c", SERVICE, json.dumps(files)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as service:
        address = service.stdout.readline().strip()
        how = {"init_timeout": 20, "shutdown_timeout": 600, "heartbeat_timeout": 2, **files}
        join = xla_client.get_distributed_runtime_client
        clients = [join(address, number, **how) for number in range(2)]
        together(lambda client: client.connect(), clients, timeout=30)
        service.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(DevrtError, match="the heartbeat failed"):  # not after 600 s
                together(lambda client: client.shutdown(), clients, timeout=60)
        finally:
            service.kill()
