"""Print where the native SDK lies, or what is wrong with a backend's wheel.

``python -m devrt.native --cmake-dir``, ``python -m devrt.native --check-wheel X.whl``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from devrt.native import ABI_VERSION, cmake_dir, include_dir

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what was requested, one a line; return the exit status: 1 for a wheel with errors."""
    parser = argparse.ArgumentParser(
        prog="python -m devrt.native", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--include-dir", action="store_true", help="folder of the C++ headers")
    parser.add_argument("--cmake-dir", action="store_true", help="folder of devrtConfig.cmake")
    parser.add_argument("--abi", action="store_true", help="version of the native ABI")
    parser.add_argument("--check-wheel", metavar="WHEEL", help="say what is wrong with a wheel")
    options = parser.parse_args(arguments)
    if not (options.include_dir or options.cmake_dir or options.abi or options.check_wheel):
        parser.error("ask for --include-dir, --cmake-dir, --abi, --check-wheel, or several of them")
    if options.include_dir:
        sys.stdout.write(f"{include_dir()}\n")
    if options.cmake_dir:
        sys.stdout.write(f"{cmake_dir()}\n")
    if options.abi:
        sys.stdout.write(f"{ABI_VERSION}\n")
    return _check(options.check_wheel) if options.check_wheel else 0


def _check(wheel: str) -> int:
    from devrt.native.wheel_check import check_wheel

    faults = check_wheel(wheel)
    for fault in faults:
        sys.stdout.write(f"{fault}\n")
    if not faults:
        sys.stdout.write("no faults found\n")
    return int(any(fault.is_error for fault in faults))


if __name__ == "__main__":
    raise SystemExit(main())
