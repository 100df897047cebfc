"""Compiled programs that are bound to devices."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from devrt._op_sharding import OpSharding
    from devrt.contract._buffer import Buffer
    from devrt.contract._client import Client
    from devrt.contract._device import Device

__all__ = ["LoadedExecutable"]


class LoadedExecutable(abc.ABC):
    """A compiled program, loaded on the devices it was compiled for.

    Attributes
    ----------
    name : str
        The program's name.
    client : Client
        The client that compiled or loaded it.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    @abc.abstractmethod
    def client(self) -> Client: ...

    @property
    def parameters(self) -> Sequence[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each parameter, of one device's shard."""
        raise self._unimplemented("parameters")

    @property
    def outputs(self) -> Sequence[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each output, of one device's shard."""
        raise self._unimplemented("outputs")

    def get_parameter_shardings(self) -> list[OpSharding]:
        """Return how the compiler divided each parameter; empty with one partition."""
        raise self._unimplemented("get_parameter_shardings")

    def get_output_shardings(self) -> list[OpSharding]:
        """Return how the compiler divided each output; empty with one partition."""
        raise self._unimplemented("get_output_shardings")

    def get_hlo_text(self) -> str:
        """Return the compiler's own program as text in HLO's notation, for people to read."""
        raise self._unimplemented("get_hlo_text")

    def _unimplemented(self, operation: str) -> Exception:
        from devrt.errors import UnimplementedError

        msg = f"{operation} is not offered by the executables of the {self.client.platform} client."
        return UnimplementedError(msg, operation=operation, platform=self.client.platform)

    @abc.abstractmethod
    def local_devices(self) -> list[Device]:
        """Return the devices of this process that the program runs on, in argument order."""

    @abc.abstractmethod
    def execute(self, arguments: Sequence[Buffer]) -> list[Buffer]:
        """Start the program on one device and return its results. Does not wait.

        Raises
        ------
        InvalidArgumentError
            If the number, dtype, shape or device of an argument does not fit the program.
        """

    @abc.abstractmethod
    def execute_sharded(self, arguments: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Start the program on all its devices and return results by output, then by device."""

    def execute_with_token(self, arguments: Sequence[Buffer]) -> tuple[list[Buffer], Any]:
        """Do as `execute`, and return with the results a token of the program's end.

        A token has ``is_ready()`` and ``block_until_ready()``, which raises the error that the
        program failed with. It is the only way to wait for a program without results.
        """
        raise self._unimplemented("execute_with_token")

    def execute_sharded_with_tokens(
        self, arguments: Sequence[Sequence[Buffer]]
    ) -> tuple[list[list[Buffer]], list[Any]]:
        """Do as `execute_sharded`, and return with the results one token for each device."""
        raise self._unimplemented("execute_sharded_with_tokens")

    @abc.abstractmethod
    def delete(self) -> None:
        """Unload the program once no execution in flight uses it. Idempotent."""

    @abc.abstractmethod
    def is_deleted(self) -> bool:
        """Return whether `delete` was called."""
