"""What a compiled program takes of memory, under jaxlib's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

__all__ = ["CompiledMemoryStats"]


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledMemoryStats:
    """What a program takes of a device's memory, and of the host's, in bytes.

    Attributes
    ----------
    generated_code_size_in_bytes, argument_size_in_bytes, output_size_in_bytes, \
alias_size_in_bytes, temp_size_in_bytes : int
        On the device: its code, what it takes and returns, what of that it shares, and the rest.
    host_generated_code_size_in_bytes, host_argument_size_in_bytes, host_output_size_in_bytes, \
host_alias_size_in_bytes, host_temp_size_in_bytes : int
        The same on the host.
    peak_memory_in_bytes : int
        The most at one time; 0 where the compiler does not say.
    total_size_in_bytes : int
        All allocations; 0 where the compiler does not say.
    """

    generated_code_size_in_bytes: int = 0
    argument_size_in_bytes: int = 0
    output_size_in_bytes: int = 0
    alias_size_in_bytes: int = 0
    temp_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0
    peak_memory_in_bytes: int = 0
    total_size_in_bytes: int = 0

    @classmethod
    def of(cls, figures: Mapping[str, int]) -> CompiledMemoryStats:
        """Return those of an executable's `get_compiled_memory_stats`."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: size for name, size in figures.items() if name in names})
