"""Certificates of a test's own, made by openssl."""

import shutil
import subprocess

import pytest


def certificates(folder):
    """Make an authority and a certificate for this machine, with the URI of a job.

    The paths come under the names of the parameters that take them.
    """
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    _openssl(folder, "req", "-x509", *key, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1,URI:spiffe://job/a"
    request = ("-subj", "/CN=job", "-addext", names, "-keyout", "key.pem", "-out", "cert.pem")
    _openssl(folder, "req", "-x509", *key, *request, "-CA", "ca.pem", "-CAkey", "ca.key")
    rows = {"cert": "cert.pem", "key": "key.pem", "ca": "ca.pem"}
    return {f"mtls_{name}_file": str(folder / file) for name, file in rows.items()}


def _openssl(folder, *arguments):
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
