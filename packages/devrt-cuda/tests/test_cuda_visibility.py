"""What the doctor says of the variables that hide GPUs."""

import pytest

from devrt_cuda._visibility import findings


def found(**environ):
    return [(each.code, each.severity, each.message) for each in findings(environ)]


@pytest.mark.parametrize(
    ("shown", "severity", "says"),
    [
        ("", "warning", "shows no device"),
        ("-1", "warning", "shows no device"),
        ("2,0", "info", "at most 2, in this order"),
        ("1,-1,0", "info", "at most 1,"),
        ("GPU-8932f937", "info", "at most 1,"),
        ("MIG-8932f937", "info", "A MIG instance is named by its UUID"),
    ],
)
def test_the_drivers_variable(shown, severity, says):
    ((code, level, message),) = found(CUDA_VISIBLE_DEVICES=shown)
    assert (code, level) == ("devices-hidden", severity)
    assert says in message
    assert ("PCI_BUS_ID" in message) == (shown in ("2,0", "1,-1,0"))


def test_jaxs_variable_counts_what_the_drivers_leaves():
    (chosen,) = found(JAX_CUDA_VISIBLE_DEVICES="0,1")
    assert chosen[0] == "devices-chosen"
    assert "renumbered" not in chosen[2]
    both = found(JAX_CUDA_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="3,4")
    assert [code for code, _, _ in both] == ["devices-hidden", "devices-chosen"]
    assert "renumbered" in both[1][2]
    assert found(JAX_CUDA_VISIBLE_DEVICES="all") == []
