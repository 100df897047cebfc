"""Which quirks hold, and which flags are sent: those of the version of the compiler's wheel."""

import pytest

from devrt.compiling import Program
from devrt.compiling.xla_cpu_engines import ENGINES
from devrt.compiling.xla_cpu_quirks import QUIRKS
from devrt_cpu import _engine
from devrt_cpu._library import Library

LARGE = Program(b"x" * 5000)
OF_LARGE_ONLY = {
    "xla-cpu-pjrt": {"xla_cpu_use_xnnpack": False, "xla_cpu_enable_fast_min_max": False}
}


def of(wheel, version):
    return Library("/nowhere.so", wheel, version)


@pytest.mark.parametrize("version", ["0.0.1", "0.0.1.dev3", "0.0.1rc1+local"])
def test_the_version_in_which_they_were_seen_has_them(version):
    wanted = tuple(quirk for quirk in QUIRKS if quirk.library == "xla-cpu-pjrt")
    assert of("xla-cpu-pjrt", version).quirks == wanted
    assert _engine._own_flags(of("xla-cpu-pjrt", version), LARGE) == OF_LARGE_ONLY["xla-cpu-pjrt"]


@pytest.mark.parametrize("version", ["0.0.2", "1", "nightly"])
def test_nothing_is_refused_of_other_versions_and_no_flag_is_set(version):
    assert of("xla-cpu-pjrt", version).quirks == ()
    assert _engine._own_flags(of("xla-cpu-pjrt", version), LARGE) == {}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.wheel)
def test_no_flag_is_sent_that_an_engine_lacks(engine):
    library = of(engine.wheel, ".".join(map(str, engine.version)))
    flags = _engine._own_flags(library, Program(b"small"))
    assert not set(flags) & set(engine.lacks)
