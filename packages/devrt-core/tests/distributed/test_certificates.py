"""Both sides of a connection known by certificates: who has none, or another's, is refused."""

import shutil
import subprocess

import pytest

pytest.importorskip("grpc", reason="needs the extra 'distributed'")

from devrt import xla_client
from devrt.errors import DeadlineExceededError, DistributedError, InvalidArgumentError


def openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificates(folder):
    """Make an authority and a certificate for localhost, with the URI of a job."""
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl(folder, "req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    names = "subjectAltName=DNS:localhost,URI:spiffe://job/a"
    request = ("-subj", "/CN=job", "-addext", names, "-keyout", "key.pem", "-out", "cert.pem")
    openssl(folder, "req", "-x509", *key, *request, "-CA", "ca.pem", "-CAkey", "ca.key")
    rows = {"cert": "cert.pem", "key": "key.pem", "ca": "ca.pem"}
    return {f"mtls_{name}_file": str(folder / file) for name, file in rows.items()}


def test_only_certificates_of_the_job_join(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    ours, others = certificates(tmp_path / "ours"), certificates(tmp_path / "others")
    make = xla_client.get_distributed_runtime_service
    join = xla_client.get_distributed_runtime_client
    with make("localhost:0", 1, mtls_peer_uri_prefix="spiffe://job/", **ours) as service:
        for wrong in ({}, others):
            with pytest.raises(DeadlineExceededError):  # the channel tries again until then
                join(service.address, 0, init_timeout=1, **wrong).connect()
        client = join(service.address, 0, init_timeout=20, **ours)
        client.connect()
        client.key_value_set("k", "v")
        assert client._session._connection._direct is None  # it has no certificates
        client.shutdown()
    with (
        make("localhost:0", 1, mtls_peer_uri_prefix="spiffe://other/", **ours) as service,
        pytest.raises(DistributedError, match="UNAUTHENTICATED"),
    ):
        join(service.address, 0, init_timeout=20, **ours).connect()
    with pytest.raises(InvalidArgumentError, match="all of mtls_cert_file"):
        make("localhost:0", 1, mtls_cert_file=ours["mtls_cert_file"])
