"""Print where the native SDK lies: ``python -m devrt.native --include-dir``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from devrt.native import ABI_VERSION, cmake_dir, include_dir

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the folders that were requested, one a line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m devrt.native", description=__doc__)
    parser.add_argument("--include-dir", action="store_true", help="folder of the C++ headers")
    parser.add_argument("--cmake-dir", action="store_true", help="folder of devrtConfig.cmake")
    parser.add_argument("--abi", action="store_true", help="version of the native ABI")
    options = parser.parse_args(arguments)
    if not (options.include_dir or options.cmake_dir or options.abi):
        parser.error("ask for --include-dir, --cmake-dir, --abi, or several of them")
    if options.include_dir:
        sys.stdout.write(f"{include_dir()}\n")
    if options.cmake_dir:
        sys.stdout.write(f"{cmake_dir()}\n")
    if options.abi:
        sys.stdout.write(f"{ABI_VERSION}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
