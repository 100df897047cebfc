"""What a child process does to find out whether ``XLA_FLAGS`` would end a process."""

from __future__ import annotations

from devrt_cpu import make_cpu_client

__all__ = ["compile_something"]


def compile_something(library: str) -> None:
    """Compile the smallest program; called by name, see `devrt.compiling.xla_flags`."""
    with make_cpu_client(cpu_engine=library) as client:
        client.compile_and_load("func.func @main() { return }")
