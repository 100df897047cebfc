"""The doctor on plugins in a folder."""

import pytest

from devrt.doctor import diagnose


@pytest.fixture
def examine(plugins, tmp_path):
    """Return a function that reports on the plugins of the test."""

    def run(environ=None, **options):
        with plugins.runtime(**(environ or {})) as runtime:
            return diagnose(runtime=runtime, root=tmp_path, **options)

    return run
