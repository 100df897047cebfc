"""Importing devrt.sharding is light."""

import pytest

from devrt import sharding
from support import python

CODE = """
import sys
import devrt.sharding
from devrt.sharding import *
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("module", ["numpy", "rich"])
def test_importing_imports_no(module):
    found = python(CODE).stdout.split()
    assert "devrt" in found
    assert module not in found


def test_every_public_name_is_there():
    assert sharding.__all__ == sorted(sharding.__all__)
    assert all(hasattr(sharding, name) for name in sharding.__all__)
