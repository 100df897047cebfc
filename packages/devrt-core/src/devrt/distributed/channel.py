"""The gRPC channel of a client, with the calls of the protocol."""

from __future__ import annotations

from typing import Any

from devrt.distributed.protocol.messages import METHODS, SERVICE, grpc_module, message
from devrt.distributed.security import Security

__all__ = ["OPTIONS", "methods_of", "opened"]

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""Of every channel: to coordination services, and to etcd."""


def opened(address: str, security: Security, compress: bool) -> Any:
    """Return a channel to a coordination service, which connects when it is used."""
    grpc = grpc_module()
    how = {"compression": grpc.Compression.Gzip} if compress else {}
    if security.has_certificates:
        credentials = security.channel_credentials(grpc)
        return grpc.secure_channel(address, credentials, OPTIONS, **how)
    return grpc.insecure_channel(address, OPTIONS, **how)


def methods_of(channel: Any) -> dict[str, Any]:
    """Return the calls by their names."""
    return {
        name: channel.unary_unary(
            f"/{SERVICE}/{name}",
            message(f"{name}Request").SerializeToString,
            message(f"{name}Response").FromString,
        )
        for name in METHODS
    }
