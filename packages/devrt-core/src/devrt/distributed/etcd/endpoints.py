"""The members of an etcd cluster: a call goes to one that answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from devrt.distributed.channel import OPTIONS
from devrt.distributed.etcd.tokens import Login, Metadata, Tokens, is_of_token
from devrt.distributed.faults import refused
from devrt.distributed.protocol.messages import grpc_module, message
from devrt.distributed.protocol.open_calls import kept
from devrt.distributed.security import Security
from devrt.errors import DevrtError, StatusCode

__all__ = ["Endpoints", "etcd_message"]

_ATTEMPT = 3.0  # seconds: a member that is stopped, or has no leader, answers nothing
_PAUSE = 0.1
_TRANSIENT = {"UNAVAILABLE", "DEADLINE_EXCEEDED"}
_FULL = "database space exceeded"
_NO_USERS = "authentication is not enabled"
_NO_USER = "user name is empty"
_WRONG_LOGIN = "authentication failed"
# etcd answers at once, with an error, where a member has lost its leader; else it waits.
_METADATA = (("hasleader", "true"),)


def etcd_message(name: str) -> Any:
    """Return the class of one of etcd's messages."""
    return message(name, "etcd", "etcdserverpb")


class Endpoints:
    """Calls to a cluster's members; to the next one where one does not answer.

    A call that is repeated may have been made already: callers make calls that can be repeated.

    Parameters
    ----------
    addresses
        Each member's ``host:port``.
    security
        Certificates, where the cluster wants them.
    patience
        Seconds that a call tries all members.
    login
        The user, where the cluster wants one.

    Attributes
    ----------
    on_leave : callable
        Called with the number of a member that has not answered: streams to it end unseen.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        security: Security,
        patience: float,
        login: Login | None = None,
    ) -> None:
        self._grpc = grpc_module()
        self._addresses = list(addresses)
        self._patience = patience
        self._channels = [self._open(address, security) for address in addresses]
        self._methods: dict[tuple[int, str], Any] = {}
        self._current = 0
        self._login = login
        self._tokens = None if login is None else Tokens(self._token_of)
        self._closed = threading.Event()
        self.on_leave: Callable[[int], object] = lambda index: None

    def call(self, method: str, request: Any) -> Any:
        """Return a member's answer; the response is the type that the request's name tells."""

        def attempt(index: int, seconds: float, metadata: Metadata) -> Any:
            unary = self._method(index, method, type(request))
            return unary(request, timeout=seconds, metadata=_METADATA + metadata)

        return self._answered(method, attempt, self._patience)

    def ask(self, method: str, request: Any, seconds: float) -> Any:
        """Return the first answer of a stream that is opened for one request."""
        response = f"{type(request).DESCRIPTOR.name.removesuffix('Request')}Response"

        def attempt(index: int, seconds: float, metadata: Metadata) -> Any:
            stream = self._stream_of(index, method, response)
            call = kept(stream(iter([request]), timeout=seconds, metadata=_METADATA + metadata))
            answer = next(call)
            call.cancel()
            return answer

        return self._answered(method, attempt, seconds)

    def _answered(
        self, method: str, attempt: Callable[[int, float, Metadata], Any], patience: float
    ) -> Any:
        end = time.monotonic() + patience
        metadata: Metadata = ()
        while True:
            index = self._current
            left = end - time.monotonic()
            try:
                metadata = self.metadata(index)
                return attempt(index, max(0.05, min(left, patience / 2, _ATTEMPT)), metadata)
            except ValueError as error:  # gRPC's word for a closed channel
                raise self._ended(method) from error
            except self._grpc.RpcError as error:
                left = end - time.monotonic()
                is_token = self._is_of_token(error)
                if left <= 0 or not (is_token or error.code().name in _TRANSIENT):
                    raise self._error(method, error, patience) from error
                if is_token:
                    self.drop_token(metadata)
                else:
                    self.leave(index)
            if self._closed.wait(min(_PAUSE, left)):
                raise self._ended(method)

    @property
    def current(self) -> int:
        """The number of the member that calls go to."""
        return self._current

    def metadata(self, index: int) -> Metadata:
        """Return what tells the user; the member gives it where it is not known yet."""
        return () if self._tokens is None else self._tokens.metadata(index)

    def drop_token(self, metadata: Metadata) -> None:
        """Ask for another token at the next call: one was refused."""
        if self._tokens is not None:
            self._tokens.drop(metadata)

    def stream(
        self, index: int, method: str, requests: Iterator[Any], response: str, metadata: Metadata
    ) -> Any:
        """Open a stream to a member; return the call."""
        stream = self._stream_of(index, method, response)
        return kept(stream(requests, metadata=_METADATA + metadata))

    def leave(self, index: int) -> None:
        """Turn from a member that does not answer to the next."""
        if self._current == index:
            self._current = (index + 1) % len(self._channels)
            self.on_leave(index)

    def close(self) -> None:
        """End all calls. Idempotent."""
        self._closed.set()
        for channel in self._channels:
            channel.close()

    def _open(self, address: str, security: Security) -> Any:
        options = [
            *OPTIONS,
            # etcd ends connections that ask more often than every 5 s.
            ("grpc.keepalive_time_ms", 6000),
            ("grpc.keepalive_timeout_ms", 3000),
            ("grpc.http2.max_pings_without_data", 0),  # no limit: a watch sends nothing
        ]
        if security.is_authority_alone:
            credentials = security.authority_credentials(self._grpc)
        elif security.has_certificates:
            credentials = security.channel_credentials(self._grpc)
        else:
            return self._grpc.insecure_channel(address, options)
        return self._grpc.secure_channel(address, credentials, options)

    def _method(self, index: int, method: str, request: Any) -> Any:
        found = self._methods.get((index, method))
        if found is None:
            name = request.DESCRIPTOR.name.removesuffix("Request")
            kind = etcd_message(f"{name}Response")
            found = self._channels[index].unary_unary(
                f"/etcdserverpb.{method}", request.SerializeToString, kind.FromString
            )
            self._methods[index, method] = found
        return found

    def _stream_of(self, index: int, method: str, response: str) -> Any:
        return self._channels[index].stream_stream(
            f"/etcdserverpb.{method}",
            lambda one: one.SerializeToString(),
            etcd_message(response).FromString,
        )

    def _token_of(self, index: int) -> str:
        """Return a new token of a user: of any member, it counts at all."""
        assert self._login is not None
        kind = etcd_message("AuthenticateRequest")
        request = kind(name=self._login.user, password=self._login.password)
        try:
            unary = self._method(index, "Auth/Authenticate", kind)
            return str(unary(request, timeout=_ATTEMPT, metadata=_METADATA).token)
        except self._grpc.RpcError as error:
            if _NO_USERS in str(error.details()):
                return ""
            raise

    def _is_of_token(self, error: Any) -> bool:
        return self._tokens is not None and is_of_token(str(error.details()))

    def _ended(self, method: str) -> DevrtError:
        return refused(StatusCode.CANCELLED, f"{method} at etcd ended: the store was closed.")

    def _error(self, method: str, error: Any, patience: float) -> DevrtError:
        name, details = error.code().name, str(error.details())
        where = ",".join(self._addresses)
        if name in _TRANSIENT:
            name = "UNAVAILABLE"
            words = (
                f"no member of etcd at {where} answered {method} for {patience:g} s ({details}). "
                "Look whether most of its members run, and at the address."
            )
        elif _FULL in details:
            words = (
                f"etcd at {where} is full ({details}) and takes no more keys. Compact and "
                "defragment it and disarm its alarm, or raise --quota-backend-bytes."
            )
        elif _WRONG_LOGIN in details or _NO_USER in details:
            name = "UNAUTHENTICATED"
            words = f"etcd at {where} {self._unknown()}"
        elif name == "PERMISSION_DENIED":
            words = (
                f"etcd at {where} does not let {self._user()} make {method} for the job's keys. "
                "Grant a role of the user readwrite on the job's prefix."
            )
        else:
            words = f"{method} failed at etcd {where}: {details}"
        return refused(StatusCode[name], words, address=where)

    def _user(self) -> str:
        return "a process without a user" if self._login is None else f"user {self._login.user!r}"

    def _unknown(self) -> str:
        if self._login is None:
            return (
                "wants a user, and none is given. Give etcd_user and etcd_password, or set "
                "DEVRT_ETCD_USER and DEVRT_ETCD_PASSWORD."
            )
        return f"refuses {self._user()} with the password that is given. Check both."
