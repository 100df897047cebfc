"""The progress of transfers and compilations, and drawings, in a real notebook's kernel."""

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is missing")
pytest.importorskip("ipykernel", reason="ipykernel, the kernel of notebooks, is missing")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own

TRANSFER = """
import numpy as np
import devrt
x = devrt.device_put([np.zeros(1000), np.zeros(1000)], progress=True)
"""

COMPILATION = """
import threading
from devrt.programs import compile_progress

bar_in, shown = compile_progress._bar_in, threading.Event()

def watched(notebook, what):
    show = bar_in(notebook, what)
    return lambda seconds, is_done: show(seconds, is_done) or shown.set()

compile_progress._PATIENCE = compile_progress._STEP = 0.001
compile_progress._bar_in = watched
with compile_progress.shown_while_compiling("f", 2):
    shown.wait()
"""

DRAWINGS = """
import numpy as np
import devrt
devrt.config.update("num_cpu_devices", 2)
mesh = devrt.make_mesh((2,), ("x",))
x = devrt.device_put(np.zeros((2, 2)), devrt.NamedSharding(mesh, devrt.P("x")))

@devrt.jit
def function(x):
    devrt.debug.visualize_array_sharding(x)
    return x + 1

function.lower(x).compile()
"""


def outputs_of(cell):
    """Run a cell in a kernel of its own, and return what it shows."""
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert all("data" in output for output in outputs), outputs
    return [output.data for output in outputs]


def test_a_compilation_shows_one_bar_that_is_full_at_the_end():
    (shown,) = outputs_of(COMPILATION)
    start = '<progress value="1" max="1"></progress> compiling f for 2 devices: '
    assert shown["text/html"].startswith(start)


@pytest.mark.engine
def test_drawings_are_svg():
    drawn, compiled = outputs_of(DRAWINGS)
    assert drawn["image/svg+xml"].startswith("<svg")
    assert compiled["text/html"].count("<svg") == 2


def test_a_transfer_shows_one_bar_that_is_full_at_the_end():
    (shown,) = outputs_of(TRANSFER)
    assert shown["text/html"] == (
        '<progress value="16000" max="16000"></progress> device_put 2/2, 0.0 of 0.0 MB'
    )
