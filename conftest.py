"""What all test folders share: eight virtual host devices, and a clean environment."""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run: a failure is the change's fault, not the dice's. The profile
# "fuzz" draws anew each time (pytest --hypothesis-profile=fuzz).
settings.register_profile(
    "devrt",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fuzz", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("devrt")

# Before anything asks for a device: the tests' meshes need eight of them, and a platform that the
# developer happens to have chosen must not change what is tested.
for _name in [name for name in os.environ if name.startswith(("DEVRT_", "JAX_"))]:
    del os.environ[_name]
os.environ["DEVRT_NUM_CPU_DEVICES"] = "8"
# Neither the developer's configuration nor his verdicts on plugins belong in a test.
_folder = tempfile.TemporaryDirectory(prefix="devrt-tests-")
os.environ["XDG_CACHE_HOME"] = os.environ["XDG_CONFIG_HOME"] = _folder.name


@pytest.fixture(scope="session", autouse=True)
def _no_unused_hardware(tmp_path_factory):
    """Let no test fail because the machine has an accelerator that no backend uses."""
    from devrt.runtime import notices

    notices._ROOT = str(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="session")
def cpu():
    """Return the eight devices of the default runtime's CPU client."""
    import devrt

    pytest.importorskip("devrt_cpu")
    devices = devrt.devices("cpu")
    assert len(devices) == 8
    return devices
