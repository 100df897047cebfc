"""The progress of transfers in a real notebook's kernel."""

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is missing")
pytest.importorskip("ipykernel", reason="ipykernel, the kernel of notebooks, is missing")

CELL = """
import numpy as np
import devrt
x = devrt.device_put([np.zeros(1000), np.zeros(1000)], progress=True)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own
def test_a_transfer_shows_one_bar_that_is_full_at_the_end():
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert [output.output_type for output in outputs] == ["display_data"], outputs
    assert outputs[0].data["text/html"] == (
        '<progress value="16000" max="16000"></progress> device_put 2/2, 0.0 of 0.0 MB'
    )
