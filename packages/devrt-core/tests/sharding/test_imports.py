"""Importing devrt.sharding is light."""

import subprocess
import sys

import pytest

from devrt import sharding

CODE = """
import sys
import devrt.sharding
from devrt.sharding import *
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("module", ["numpy", "rich"])
def test_importing_imports_no(module):
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert "devrt" in done.stdout.split()
    assert module not in done.stdout.split()


def test_every_public_name_is_there():
    assert sharding.__all__ == sorted(sharding.__all__)
    assert all(hasattr(sharding, name) for name in sharding.__all__)
