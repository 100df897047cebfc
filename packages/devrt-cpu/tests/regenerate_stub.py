"""Write ``_ext.pyi`` from the installed module: ``python regenerate_stub.py [FILE]``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).parents[1] / "src" / "devrt_cpu" / "_ext.pyi"


def main(target: Path) -> None:
    """Run nanobind's generator, private names included."""
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-P", "-m", "devrt_cpu._ext", "-o"]
    subprocess.run([*command, os.fspath(target)], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else STUB)
