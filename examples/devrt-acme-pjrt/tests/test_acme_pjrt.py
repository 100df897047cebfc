"""What is the plugin's own; `pytest --devrt-plugin=acme_pjrt` holds it to the contract."""

import importlib.metadata
from pathlib import Path

import pytest

from devrt.runtime import Runtime
from devrt.testing import import_findings


@pytest.mark.parametrize("count", [1, 3])
def test_its_option_is_the_librarys(count):
    try:
        importlib.metadata.version("devrt-acme-pjrt")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("devrt-acme-pjrt is not installed")
    with Runtime(environ={"DEVRT_NUM_ACME_PJRT_DEVICES": str(count)}) as runtime:
        with pytest.warns(UserWarning, match="acme_pjrt.* is experimental"):
            client = runtime.get_backend("acme_pjrt")
        assert client.platform == "acme_pjrt"
        assert client.device_count() == count


def test_it_imports_what_a_backend_may():
    assert import_findings(Path(__file__).parents[1]) == []
