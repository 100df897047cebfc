"""A compiled program with its bytes, as ``hlo_modules()`` of every client gives it."""

from __future__ import annotations

import dataclasses
from typing import Self

from devrt.compiling.hlo import HloModule
from devrt.compiling.hlo_text import hlo_text
from devrt.errors import UnimplementedError
from devrt.wire.protobuf import Message, bytes_field

__all__ = ["CompiledModule"]

_WITH_CONFIG = {"hlo_with_config": True, "hlo": False}


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledModule(HloModule):
    """A compiled program that can be written out; jaxlib calls it an ``HloModule``.

    Attributes
    ----------
    data : bytes
        A serialised ``HloModuleProtoWithConfig``.
    """

    data: bytes = dataclasses.field(default=b"", repr=False)

    @classmethod
    def of(cls, program: tuple[str, bytes]) -> Self:
        """Read what `LoadedExecutable.optimized_program` gave.

        Raises
        ------
        UnimplementedError
            If it is in another form than XLA's.
        """
        form, data = program
        if form not in _WITH_CONFIG:
            msg = f"the compiler gives its program as {form!r}, which devrt cannot read."
            raise UnimplementedError(msg, operation="hlo_modules")
        whole = data if _WITH_CONFIG[form] else bytes_field(1, data)
        return dataclasses.replace(cls.read(data, with_config=_WITH_CONFIG[form]), data=whole)

    def to_string(self) -> str:
        """Return it as text in HLO's notation, for people to read."""
        return hlo_text(self.data)

    def as_serialized_hlo_module_proto(self) -> bytes:
        """Return it as a serialised ``HloModuleProto``."""
        return bytes(Message(self.data).part(1))
