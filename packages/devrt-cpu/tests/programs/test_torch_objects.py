"""PyTorch's exported programs. All but the last are skipped without torch and torchax."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.programs import load_program

pytestmark = pytest.mark.engine


@pytest.fixture
def torch():
    pytest.importorskip("torchax.export", exc_type=Exception)
    return pytest.importorskip("torch")


def test_a_module_takes_and_gives_what_its_forward_does(torch):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, x, *, scale):
            return {"y": self.layer(x) * scale, "more": (x.sum(), [x])}

    model, x, scale = Model().eval(), torch.arange(12.0).reshape(3, 4), torch.tensor(2.0)
    program = load_program(torch.export.export(model, (x,), {"scale": scale}))
    assert program.in_names == ("0", "scale")
    wanted = model(x, scale=scale)["y"].detach()
    for made in (program(x, scale=scale), program(x.numpy(), scale=2)):
        np.testing.assert_allclose(made["y"], wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(made["more"][1][0], x)


def test_indices_stay_64_bits_wide(torch):
    model, ids = torch.nn.Embedding(10, 4).eval(), torch.arange(6).reshape(2, 3)
    program = load_program(torch.export.export(model, (ids,)))
    np.testing.assert_array_equal(program(ids), model(ids).detach())


def test_what_cannot_be_read_or_run_is_refused(torch):
    model, x = torch.nn.Linear(4, 2).eval(), torch.ones(3, 4)
    with pytest.raises(InvalidTypeError, match=r"Export it: torch\.export\.export"):
        load_program(model)
    program = load_program(torch.export.export(model, (x,)))
    with pytest.raises(InvalidArgumentError, match=r"argument 0 .* cannot be read, as torch says"):
        program(torch.ones(3, 4, requires_grad=True))
    batch = torch.export.Dim("batch")
    dynamic = torch.export.export(model, (x,), dynamic_shapes={"input": {0: batch}})
    with pytest.raises(InvalidArgumentError, match=r"argument 0 of the symbolic shape \(\w+, 4\)"):
        load_program(dynamic)


def test_what_is_to_be_installed_is_named(monkeypatch):
    program = type("ExportedProgram", (), {"__module__": "torch.export.exported_program"})()
    monkeypatch.setitem(sys.modules, "torchax", None)
    monkeypatch.setitem(sys.modules, "torchax.export", None)
    with pytest.raises(UnimplementedError, match=r"torchax==[\d.]+ torch==[\d.]+ jax==[\d.]+"):
        load_program(program)
