"""An etcd that asks who calls: by user and password, by certificates, or both."""

import os
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from certificates import certificates
from devrt import xla_client
from devrt.distributed.etcd.store import EtcdStore
from devrt.distributed.etcd.tokens import Login
from devrt.distributed.security import Security
from devrt.errors import DistributedError, InvalidArgumentError, StatusCode
from etcd_servers import EtcdServers
from support import together

SECRET = "s3cret-of-alice"
ALICE = {"etcd_user": "alice", "etcd_password": SECRET}
QUICK = ["--bcrypt-cost=4"]
make = xla_client.get_distributed_runtime_service
join = xla_client.get_distributed_runtime_client


@pytest.fixture(scope="module")
def guarded():
    servers = EtcdServers(options=QUICK)
    servers.ask_for_users("alice", SECRET, "jobs/")
    yield servers
    servers.close()


def store_of(servers, name="jobs/store", user="alice", patience=20):
    login = Login(user, SECRET)
    return EtcdStore(servers.hosts.split(","), name, patience=patience, login=login)


def meet(address, **how):
    """Run a whole job of two."""
    with make(address, 2, **how) as service:
        clients = [join(service.address, n, init_timeout=30, **how) for n in range(2)]
        together(lambda client: client.connect(), clients, timeout=40)
        clients[0].key_value_set_bytes("big", bytes(2_000_000))
        assert len(clients[1].blocking_key_value_get_bytes("big", 20_000)) == 2_000_000
        together(lambda client: client.wait_at_barrier("b", 20_000), clients, timeout=40)
        together(lambda client: client.shutdown(), clients, timeout=40)


def test_a_job_of_a_user_whose_role_has_its_prefix(guarded, monkeypatch):
    meet(guarded.address("jobs/a"), **ALICE)
    monkeypatch.setenv("DEVRT_ETCD_USER", "alice")
    monkeypatch.setenv("DEVRT_ETCD_PASSWORD", SECRET)
    meet(guarded.address("jobs/a"))


def test_who_is_refused_and_why(guarded):
    address = guarded.address("jobs/b")
    for how, words in (
        ({}, "DEVRT_ETCD_USER"),
        ({**ALICE, "etcd_password": "wrong"}, "refuses user 'alice'"),
        ({**ALICE, "etcd_user": "nobody"}, "refuses user 'nobody'"),
    ):
        with pytest.raises(DistributedError, match=words) as caught:
            make(address, 1, **how)
        assert caught.value.code is StatusCode.UNAUTHENTICATED
        assert "wrong" not in str(caught.value)
    with pytest.raises(DistributedError, match=r"'alice'.*readwrite") as caught:
        make(guarded.address("others/b"), 1, **ALICE)
    assert caught.value.code is StatusCode.PERMISSION_DENIED
    with (
        closing(store_of(guarded, "others/b")) as store,
        pytest.raises(DistributedError, match="refuses a watch") as caught,
    ):
        store.watch("k", print)
    assert caught.value.code is StatusCode.PERMISSION_DENIED
    with pytest.raises(InvalidArgumentError, match="a user of etcd is given without a password"):
        make(address, 1, etcd_user="alice")
    with pytest.raises(InvalidArgumentError, match="are for etcd"):
        join("localhost:1", 0, **ALICE)


def test_a_token_that_ends_is_replaced():
    """A member that is started again knows none of the tokens that it gave."""
    servers = EtcdServers(options=QUICK)
    try:
        with closing(store_of(servers)) as before:  # etcd wants no user yet
            before.set("k", b"0")
            servers.ask_for_users("alice", SECRET, "jobs/")
            before.set("k", b"1")
            store, seen = store_of(servers), []
            with closing(store):
                watch = store.watch("k", lambda entry: seen.append(entry.value))
                lease = store.lease(60)
                servers.kill(0)
                servers.restart(0)
                assert store.get("k").value == b"1"
                lease.renew()
                again = store.watch("k", lambda entry: seen.append(entry.value))
                assert before.transaction({"other": 0}, {"other": b""})
                store.set("k", b"2")
                while seen.count(b"2") < 2:
                    store.get("k")
                watch.close()
                again.close()
    finally:
        servers.close()


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    files = certificates(tmp_path_factory.mktemp("etcd") / "ours")
    servers = EtcdServers(options=QUICK, files=files)
    yield servers, files
    servers.close()


def test_a_job_by_certificates_and_who_has_none_is_refused(certified, tmp_path):
    servers, files = certified
    meet(servers.address("certified"), **files)
    others = certificates(tmp_path / "others")
    alone = {"mtls_ca_file": files["mtls_ca_file"]}
    for wrong in ({}, others, alone):
        store = EtcdStore(servers.hosts.split(","), "x", Security(**wrong), patience=1)
        with closing(store), pytest.raises(DistributedError, match="no member of etcd") as caught:
            store.get("k")
        assert caught.value.code is StatusCode.UNAVAILABLE
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        make(servers.address("certified"), 1, **{**files, "mtls_key_file": "/none"})


def test_a_user_over_an_encrypted_connection(tmp_path):
    files = certificates(tmp_path / "ours")
    server = {**files, "only_server": True}
    servers = EtcdServers(options=QUICK, files=server)
    try:
        servers.ask_for_users("alice", SECRET, "jobs/")
        meet(servers.address("jobs/a"), **ALICE, mtls_ca_file=files["mtls_ca_file"])
    finally:
        servers.close()


JOIN = """
    import logging
    logging.basicConfig(level=logging.DEBUG)
    from devrt import distributed
    distributed.initialize(initialization_timeout=20)
    distributed.global_state.client.key_value_set("k", "v")
    distributed.shutdown()
"""


def test_no_password_is_printed(guarded, tmp_path):
    """By a job's log, the doctor, the status, or an error about an address that has one."""
    names = {"COORDINATOR_ADDRESS": guarded.address("jobs/c"), "NUM_PROCESSES": "1"}
    names |= {"PROCESS_ID": "0", "ETCD_USER": "alice", "ETCD_PASSWORD": SECRET}
    environ = {**os.environ, **{f"DEVRT_{name}": value for name, value in names.items()}}
    inside = environ["DEVRT_COORDINATOR_ADDRESS"].replace("//", f"//alice:{SECRET}@")
    wrong = {**environ, "DEVRT_COORDINATOR_ADDRESS": inside}
    script = tmp_path / "join.py"
    script.write_text(textwrap.dedent(JOIN))
    devrt = ["-m", "devrt"]
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    with make(guarded.address("jobs/d"), 1, **ALICE) as service:
        status = [*devrt, "cluster", "status", service.address, "--json"]
        login = ["--etcd-user", "alice", "--etcd-password-file", str(file)]
        plain = {name: x for name, x in environ.items() if not name.startswith("DEVRT_ETCD")}
        for arguments, variables, words in (
            ([str(script)], environ, "coordinator_address etcd://127"),
            ([str(script)], wrong, "has a user or a password in it"),
            ([*devrt, "doctor", "--json"], wrong, "has a user or a password in it"),
            (status, environ, "never registered"),
            ([*status, *login], plain, "never registered"),
            (status, plain, "DEVRT_ETCD_USER"),
            ([*devrt, "cluster", "status"], wrong, "has a user or a password in it"),
        ):
            command = [sys.executable, *arguments]
            done = subprocess.run(command, env=variables, capture_output=True, text=True)
            printed = done.stdout + done.stderr
            assert words in printed
            assert SECRET not in printed, arguments
