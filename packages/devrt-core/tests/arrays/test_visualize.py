"""Drawings of arrays: text on the standard output, SVG in a notebook."""

import numpy as np
import pytest

import devrt
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P
from support import python

pytest.importorskip("devrt_cpu")


@pytest.fixture
def grid(cpu):
    return NamedSharding(devrt.make_mesh((4, 2), ("x", "y"), devices=cpu), P("x", "y"))


def test_a_drawing_names_every_device(grid, capsys):
    devrt.visualize_array_sharding(devrt.device_put(np.zeros((8, 8)), grid))
    drawn = capsys.readouterr().out
    assert all(f"cpu:{n}" in drawn or f"{n}" in drawn for n in range(8))
    assert drawn.count("├") == 3


def test_what_cannot_be_drawn_is_refused(grid):
    with pytest.raises(InvalidTypeError, match="device_put"):
        devrt.visualize_array_sharding(np.zeros(3))
    deep = devrt.device_put(np.zeros((8, 8, 2)), grid)
    with pytest.raises(InvalidArgumentError, match="dims"):
        devrt.visualize_array_sharding(deep)
    devrt.visualize_array_sharding(deep, dims=(0, 1), use_color=False)


def test_a_notebook_shows_svg():
    pytest.importorskip("IPython")
    script = (
        "import numpy as np, devrt\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "from IPython.utils.capture import capture_output\n"
        "shell = InteractiveShell.instance()\n"
        "shell.kernel = object()\n"
        "x = devrt.device_put(np.zeros(8), devrt.devices()[0])\n"
        "with capture_output() as shown:\n"
        "    devrt.visualize_array_sharding(x)\n"
        "assert shown.stdout == '', shown.stdout\n"
        "assert '<svg' in shown.outputs[0].data['image/svg+xml']\n"
    )
    python(script)
