"""jaxlib's own coordination service, in this process, where jaxlib is installed."""

from __future__ import annotations

import importlib
from typing import Any

from devrt.distributed.cluster import Limits
from devrt.distributed.faults import refused
from devrt.distributed.ports import free_port, is_taken
from devrt.distributed.security import Security, bound_address, check_loopback
from devrt.errors import InvalidArgumentError, StatusCode

__all__ = ["JaxlibService"]


class JaxlibService:
    """A service of jaxlib's. Parameters are those of `get_distributed_runtime_service`.

    Attributes
    ----------
    address : str
        Where devrt's clients find it; jaxlib's without the scheme.
    """

    def __init__(
        self,
        host: str,
        num_nodes: int,
        limits: Limits,
        recoverable: bool,
        allow_remote: bool,
        security: Security,
    ) -> None:
        name, port = bound_address(host)
        if security != Security():
            msg = (
                "a service of jaxlib's takes neither a token nor certificates here. Use host:port, "
                "which is devrt's own and serves jaxlib's clients too."
            )
            raise InvalidArgumentError(msg, address=host)
        check_loopback(name, allow_remote, security)
        if is_taken(name, port):
            words = f"port {port} of {name} is in use. Choose another, or 0 for one that is free."
            raise refused(StatusCode.UNAVAILABLE, words, address=host)
        where = f"{name}:{port or free_port(name)}"
        self.address = f"jaxlib://{where}"
        self._service = _jaxlib().get_distributed_runtime_service(
            where,
            num_nodes,
            heartbeat_timeout=max(1, round(limits.heartbeat)),
            cluster_register_timeout=max(1, round(limits.register)),
            shutdown_timeout=max(1, round(limits.shutdown)),
            recoverable=recoverable,
        )

    def shutdown(self) -> None:
        """End the service. Idempotent."""
        service, self._service = self._service, None
        if service is not None:
            service.shutdown()

    def status(self) -> dict[str, Any]:
        """Refuse: this service tells nothing of its job."""
        raise refused(StatusCode.UNIMPLEMENTED, "jaxlib's service tells nothing of its job.")

    def __enter__(self) -> JaxlibService:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def _jaxlib() -> Any:
    try:
        return importlib.import_module("jaxlib._jax")
    except ImportError as error:
        words = f"a service at jaxlib:// needs jaxlib 0.10: {error}. Install it, or use host:port."
        raise refused(StatusCode.FAILED_PRECONDITION, words) from error
