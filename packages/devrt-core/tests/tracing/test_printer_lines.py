"""Each line of a program's text has the user's line that it is traced from, in regions too."""

import linecache

import numpy as np

from devrt.tracing import (
    binary,
    current_graph,
    print_module,
    reduce,
    shaped,
    trace_graph,
)


def test_lines_of_regions_have_frames():
    def flat(x):
        doubled = binary("add", x, x)
        current_graph().results = [reduce("add", doubled, 0.0, [0])]

    avals = [shaped((4, 2), np.dtype("float32"))]
    graph = trace_graph(flat, avals, "f", outermost=True)[0]
    printed = print_module(graph, "f")
    lines = printed.text.split("\n")
    found = {
        lines[number - 1].strip(): linecache.getline(frame.filename, frame.line)
        for number, frame in printed.frames.items()
    }
    inner = next(line for line in found if "stablehlo.add" in line and "tensor<f32>" in line)
    outer = next(line for line in found if "stablehlo.add" in line and "tensor<4x2xf32>" in line)
    assert 'reduce("add"' in found[inner]
    assert 'binary("add"' in found[outer]
    last = next(line for line in found if line.startswith("})"))
    assert 'reduce("add"' in found[last]


def test_no_path_and_no_line_is_in_the_text():
    def flat(x):
        current_graph().results = [binary("add", x, x)]

    avals = [shaped((4, 2), np.dtype("float32"))]
    text = print_module(trace_graph(flat, avals, "f", outermost=True)[0], "f").text
    assert "loc(" not in text
    assert __file__ not in text
