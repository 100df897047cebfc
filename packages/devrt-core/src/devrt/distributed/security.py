"""Who may join a cluster: certificates on both sides, a token, and limits for each process."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devrt._clusters import bound_address
from devrt._support.record import record
from devrt.distributed.arguments import file, flag, secret, text
from devrt.errors import InvalidArgumentError, StatusCode

if TYPE_CHECKING:
    import ssl

__all__ = ["Bounds", "Security", "bound_address", "check_loopback", "given_security", "is_loopback"]


@record(frozen=True, slots=True)
class Bounds:
    """What one process, and one message, may take up of the service.

    Parameters
    ----------
    message_bytes
        The largest message.
    key_bytes
        The longest key, or name of a barrier.
    waiting_calls
        How many calls of one process may wait at a time.
    connections
        How many direct connections may be open.
    transit_bytes
        What requests that are half received may take up, of all connections; responses the same.
    calls_per_second
        How many calls one process may make, heartbeats not counted; and all that register together.
    process_bytes, stored_bytes
        What the keys and values of one process, and of all, may take up.
    """

    message_bytes: int = 16 << 20
    key_bytes: int = 4096
    waiting_calls: int = 4096
    connections: int = 16384
    transit_bytes: int = 1 << 30
    calls_per_second: float = 20_000
    process_bytes: int = 1 << 30
    stored_bytes: int = 4 << 30


@record(frozen=True, slots=True)
class Security:
    """How the two sides of a connection know each other; by default not at all.

    Parameters
    ----------
    mtls_cert_file, mtls_key_file
        The certificate of this process and its key, as PEM files.
    mtls_ca_file
        The certificates that the other side's must be signed by.
    mtls_peer_uri_prefix
        What a URI in the other side's certificate must begin with; only the service checks it.
    token
        A secret that every process gives.
    verify_secure_credentials
        Whether connections without certificates are refused.
    etcd_user, etcd_password
        Who this process is to etcd, where etcd asks for a user.
    """

    mtls_cert_file: str | None = None
    mtls_key_file: str | None = None
    mtls_ca_file: str | None = None
    mtls_peer_uri_prefix: str | None = None
    token: str | None = None
    verify_secure_credentials: bool = False
    etcd_user: str | None = None
    etcd_password: str | None = None

    @property
    def is_authority_alone(self) -> bool:
        """Whether the other side is known by a certificate, and this one by something else."""
        return bool(self.mtls_ca_file) and not (self.mtls_cert_file or self.mtls_key_file)

    @property
    def has_certificates(self) -> bool:
        """Whether connections are encrypted and both sides known; raises if files are missing."""
        files = (self.mtls_cert_file, self.mtls_key_file, self.mtls_ca_file)
        if any(files) and not all(files):
            msg = (
                "mTLS needs all of mtls_cert_file, mtls_key_file and mtls_ca_file, and some are "
                "missing. Give all three, or none."
            )
            raise InvalidArgumentError(msg)
        if self.mtls_peer_uri_prefix is not None and not any(files):
            msg = (
                "mtls_peer_uri_prefix is checked in certificates, and none are given. Give "
                "mtls_cert_file, mtls_key_file and mtls_ca_file."
            )
            raise InvalidArgumentError(msg)
        if self.verify_secure_credentials and not any(files):
            msg = (
                "verify_secure_credentials=True wants certificates, and none are given. Give "
                "mtls_cert_file, mtls_key_file and mtls_ca_file."
            )
            raise InvalidArgumentError(msg)
        return all(files)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a client sends with every call."""
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def accepts(self, context: Any) -> bool:
        """Return whether a call comes from a process that may make it."""
        if self.token is not None:
            given = dict(context.invocation_metadata()).get("authorization", "")
            text = given if isinstance(given, str) else ""
            if not hmac.compare_digest(text.encode(), f"Bearer {self.token}".encode()):
                return False
        return self.mtls_peer_uri_prefix is None or self._has_uri(context)

    def admits(self, token: bytes) -> bool:
        """Return whether a token is the secret; takes the same time for every wrong one."""
        return hmac.compare_digest(token, (self.token or "").encode())

    def tls_context(self, *, is_server: bool) -> ssl.SSLContext | None:
        """Return what encrypts a connection without gRPC, of the files as they are now.

        None where there are no certificates. Both sides show one, and a client checks the
        server's name.
        """
        if not self.has_certificates:
            return None
        import ssl  # 10 ms, which a job without certificates need not pay

        self._files()  # raises with the path of the file that cannot be read
        purpose = ssl.Purpose.CLIENT_AUTH if is_server else ssl.Purpose.SERVER_AUTH
        try:
            context = ssl.create_default_context(purpose, cafile=self.mtls_ca_file)
            context.load_cert_chain(self.mtls_cert_file or "", self.mtls_key_file)
        except ssl.SSLError as error:
            msg = f"the mTLS files cannot be used: {error}. Give PEM files that belong together."
            raise InvalidArgumentError(msg, path=self.mtls_cert_file) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def accepts_names(self, names: Sequence[str]) -> bool:
        """Return whether a certificate with these URIs may be the other side's."""
        prefix = self.mtls_peer_uri_prefix
        return prefix is None or any(name.startswith(prefix) for name in names)

    def server_credentials(self, grpc: Any) -> Any:
        """Return gRPC's credentials of a service; the files are read again for each connection."""
        self.tls_context(is_server=True)  # its errors are typed; gRPC logs and tries again
        first = self._server_configuration(grpc)
        return grpc.dynamic_ssl_server_credentials(
            first, lambda: self._server_configuration(grpc), require_client_authentication=True
        )

    def channel_credentials(self, grpc: Any) -> Any:
        """Return gRPC's credentials of a client."""
        self.tls_context(is_server=False)
        key, cert, authority = self._files()
        return grpc.ssl_channel_credentials(authority, key, cert)

    def authority_credentials(self, grpc: Any) -> Any:
        """Return gRPC's credentials of a client that has no certificate of its own."""
        return grpc.ssl_channel_credentials(_read(self.mtls_ca_file))

    def _server_configuration(self, grpc: Any) -> Any:
        key, cert, authority = self._files()
        return grpc.ssl_server_certificate_configuration([(key, cert)], authority)

    def _files(self) -> list[bytes]:
        return [_read(x) for x in (self.mtls_key_file, self.mtls_cert_file, self.mtls_ca_file)]

    def _has_uri(self, context: Any) -> bool:
        prefix = (self.mtls_peer_uri_prefix or "").encode()
        names: Sequence[bytes] = context.auth_context().get("x509_subject_alternative_name", ())
        return any(name.startswith(prefix) for name in names)


def given_security(
    cert: Any,
    key: Any,
    authority: Any,
    prefix: Any,
    token: Any,
    verify: Any,
    etcd_user: Any,
    etcd_password: Any,
) -> Security:
    """Return what the keywords of a service or a client say, each of which is checked."""
    is_verified = False if verify is None else flag(verify, "verify_secure_credentials")
    return Security(
        _file_of(cert, "mtls_cert_file"),
        _file_of(key, "mtls_key_file"),
        _file_of(authority, "mtls_ca_file"),
        _text_of(prefix, "mtls_peer_uri_prefix"),
        secret(token),
        is_verified,
        _text_of(etcd_user, "etcd_user"),
        _text_of(etcd_password, "etcd_password"),
    )


def _file_of(value: Any, name: str) -> str | None:
    return None if value == "" else file(value, name)  # as jaxlib has it for none


def _text_of(value: Any, name: str) -> str | None:
    return None if value is None else text(value, name)


def _read(path: str | None) -> bytes:
    try:
        return Path(path or "").read_bytes()
    except OSError as error:
        msg = f"the mTLS file {path!r} cannot be read: {error.strerror}. Check the path."
        raise InvalidArgumentError(msg, path=path) from error


def check_loopback(
    host: str, allow_remote: bool, security: Security, what: str = "coordination service"
) -> None:
    """Refuse an address that other machines can reach, but where that is wanted and secured."""
    if is_loopback(host):
        return
    if not allow_remote:
        msg = (
            f"a {what} at {host!r} could be reached from other machines. Use "
            "localhost, or give allow_remote=True with mTLS files or a token."
        )
    elif not security.has_certificates and not security.token:
        msg = (
            f"a {what} at {host!r} needs mTLS files (mtls_cert_file, mtls_key_file, "
            "mtls_ca_file) or a token: any process that reaches it could use it."
        )
    else:
        return
    raise InvalidArgumentError(msg, code=StatusCode.PERMISSION_DENIED, host=host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host's addresses."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)
