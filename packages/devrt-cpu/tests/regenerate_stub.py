"""Write ``_ext.pyi`` from the installed module: ``python regenerate_stub.py [FILE]``."""

import os
import re
import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).parents[1] / "src" / "devrt_cpu" / "_ext.pyi"


def main(target):
    """Run nanobind's generator, private names and the methods in Python included."""
    run = (
        "import runpy; from devrt_cpu import _contract\n"
        "_contract.register()\n"
        "runpy.run_module('nanobind.stubgen', run_name='__main__')"
    )
    arguments = ["-q", "-P", "-m", "devrt_cpu._ext", "-o", os.fspath(target)]
    subprocess.run([sys.executable, "-c", run, *arguments], check=True)
    target.write_text(without_dunder_buffer(target.read_text(encoding="utf-8")), encoding="utf-8")


def without_dunder_buffer(stub):
    """Leave out ``__buffer__`` and its like, which only Python 3.12 and later show."""
    method = r"    def __(?:release_)?buffer__\(.*\n        \"{3}\n.*\n        \"{3}\n\n"
    return re.sub(
        r"^(class \w+:\n)(?=class )", r"\1    pass\n\n", re.sub(method, "", stub), flags=re.M
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else STUB)
