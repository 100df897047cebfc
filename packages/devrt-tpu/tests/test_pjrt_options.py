"""Options of compilations and of clients reach the plugin, or are refused before it."""

import pytest

from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError
from devrt_tpu import pjrt


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_partitions": 0}, "num_partitions"),
        ({"device_assignment": [[0]], "num_partitions": 2}, "device_assignment"),
        ({"env_option_overrides": {"xla_dump": object()}}, "xla_dump"),
        ({"partitions": 2}, "no compile option 'partitions'"),
    ],
)
def test_options_that_are_not_valid(xla_cpu, options, said, add_text):
    with pytest.raises(DevrtError, match=said):
        xla_cpu.compile_and_load(add_text, **options)


def test_flags_reach_the_compiler(xla_cpu, add_text):
    flags = {"xla_cpu_enable_fast_math": True, "xla_llvm_disable_expensive_passes": True}
    assert xla_cpu.compile_and_load(add_text, env_option_overrides=flags).name == "add"
    with pytest.raises(Exception, match="xla_nobody_knows"):
        xla_cpu.compile_and_load(add_text, env_option_overrides={"xla_nobody_knows": "1"})


@pytest.mark.parametrize("options", [{"cpu_device_count": "4"}, {"cpu_device_count": True}])
def test_client_options_of_a_wrong_type_would_end_the_process(xla_cpu_library, options):
    library = pjrt.library_for("options", xla_cpu_library)
    with pytest.raises(InvalidArgumentError, match="would end the process"):
        pjrt.make_client(library, "options", options)
    with pytest.raises(InvalidTypeError, match="must be"):
        pjrt.make_client(library, "options", {"anything": object()})
