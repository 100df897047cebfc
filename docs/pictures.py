"""Draw the pictures of the pages as SVG: ``python docs/pictures.py`` writes them to ``_static``.

Small files of shapes and text, without scripts and fonts of others; colours follow the reader's
light or dark scheme.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "_static"

STYLE = """
.p{fill:#fff}
text{font:14px sans-serif;fill:#222}
.s{font-size:12px;fill:#555}
.m{font:13px monospace}
.b{fill:#f4f6f8;stroke:#8a97a5}
.n{fill:#e3edf9;stroke:#4a7ab5}
.l{stroke:#667;fill:none}
.h{fill:#667}
.o text{fill:#111}
@media (prefers-color-scheme:dark){
.p{fill:#181b1f}
text{fill:#e4e6e8}
.s{fill:#a9b1b9}
.b{fill:#252a30;stroke:#75808b}
.n{fill:#1d3350;stroke:#6f9fd8}
.l{stroke:#9ab}
.h{fill:#9ab}
}
"""
"""The ground `p`; boxes `b`, of native code `n`; lines `l` with heads `h`; small text `s`; on
colours `o`. A picture has a ground of its own: the page's scheme may be another than the system's.
"""

COLOURS = "#9ecae9 #ffd59b #a8dba8 #f4b6b6 #cdb9e8 #e0c9b1 #f6c5e2 #c9cf8f".split()


def svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return a whole picture, with its title for those who do not see it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" role="img" aria-label="{html.escape(title)}">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{''.join(STYLE.split(chr(10)))}</style>",
            f'<rect class="p" width="{width}" height="{height}" rx="8"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    """Return a line of text."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{mark}>{html.escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, lines: Sequence[str], kind: str) -> str:
    """Return a box with lines in its middle, the first of them in code's letters."""
    first = y + height / 2 - 9 * (len(lines) - 1) + 5
    words = [
        text(x + width / 2, first + 18 * number, line, "s" if number else "m")
        for number, line in enumerate(lines)
    ]
    shape = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
    return shape + f'class="{kind}"/>' + "".join(words)


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return an arrow to the right or down."""
    head = f"M{x2:g},{y2:g}" + ("l-8,-4v8z" if y1 == y2 else "l-4,-8h8z")
    return f'<path class="l" d="M{x1:g},{y1:g}L{x2:g},{y2:g}"/><path class="h" d="{head}"/>'


def life_of_an_array() -> str:
    """Return what happens from a value of the host to an array, and back."""
    parts = [
        box(10, 40, 130, 60, ["x", "a value of the host"], "b"),
        arrow(140, 70, 170, 70),
        box(170, 40, 170, 60, ["device_put(x, s)", "which block goes where"], "b"),
        arrow(340, 70, 370, 70),
        box(370, 40, 170, 60, ["one native call", "copies, and returns"], "n"),
        *(box(585, 12 + 34 * d, 120, 28, [f"cpu:{d}"], "n") for d in range(4)),
        arrow(540, 70, 583, 70),
        text(645, 162, "a buffer on each device", "s"),
        arrow(645, 170, 645, 196),
        box(560, 198, 170, 60, ["Array", "buffers, shape, sharding"], "b"),
        '<path class="l" d="M560,228H350"/><path class="h" d="M340,228l8,-4v8z"/>',
        text(450, 218, "device_get, numpy.asarray", "s"),
        box(170, 198, 170, 60, ["numpy.ndarray", "a view, or gathered once"], "b"),
        '<path class="l" d="M650,258V296H480"/><path class="h" d="M472,296l8,-4v8z"/>',
        text(575, 288, "programs", "s"),
        box(300, 272, 170, 48, ["load_program(code)", "takes and gives arrays"], "b"),
    ]
    title = "A value becomes buffers on devices, an array of them, and a value again"
    return svg(740, 330, title, filter(None, parts))


def mesh_with_shards() -> str:
    """Return a mesh of eight devices, and the blocks of an array on them."""
    parts = [text(110, 20, "the mesh"), text(110, 38, 'make_mesh((4, 2), ("data", "model"))', "s")]
    parts += ['<g class="o">']
    for device in range(8):
        row, column = divmod(device, 2)
        parts.append(_cell(50 + column * 60, 70 + row * 50, 60, 50, device, str(device)))
        parts.append(_cell(390 + column * 110, 70 + row * 50, 110, 50, device, f"cpu:{device}"))
    parts += ["</g>"]
    parts += [text(110, 62, "model", "s"), text(26, 175, "data", "s")]
    parts += [text(500, 20, "an array of shape (8, 4)"), text(500, 38, 'P("data", "model")', "s")]
    parts += [text(500, 62, "dimension 1: 2 blocks of 2", "s"), text(340, 170, "dimension 0:", "s")]
    parts += [text(340, 186, "4 blocks of 2", "s"), arrow(200, 170, 276, 170)]
    return svg(640, 285, "Each device of a mesh of 4 by 2 holds one block of the array", parts)


def _cell(x: float, y: float, width: float, height: float, number: int, label: str) -> str:
    rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
    fill = f'fill="{COLOURS[number]}" stroke="#444"/>'
    return rect + fill + text(x + width / 2, y + height / 2 + 5, label, "m")


SEEN = """
$ devrt doctor
>default backend: cpu@devrt-cpu
  highest priority (0) among the available

platform  distribution      state        reason
cpu       devrt-cpu 0.1.0   >chosen       highest priority (0) among ...
cuda      devrt-cuda 0.1.0  ?unavailable  no NVIDIA GPU was found
acme      devrt-acme 2.1    !broken       needs a module that is not there

plugin           found  policy  manifest  load  probe  client  choice
cpu@devrt-cpu    >+      >+       >+         >+     >+      >+       >+
cuda@devrt-cuda  >+      >+       !x         ?-     ?-      ?-       !x
acme@devrt-acme  >+      >+       ?-         !x     ?-      ?-       !x

!error plugin-missing-dependency acme@devrt-acme
  a module that it needs, 'acme_runtime', is not installed

next: pip install "acme-runtime>=2.1"
"""
INKS = {">": "#7ee08a", "?": "#e5c07b", "!": "#ff8a80"}


def doctor() -> str:
    """Return a report of the doctor, as a terminal shows it."""
    lines = SEEN.strip().splitlines()
    parts = [f'<rect width="640" height="{len(lines) * 18 + 24}" rx="8" fill="#1c2128"/>']
    for number, line in enumerate(lines):
        if line:
            at = f'x="16" y="{26 + number * 18}" xml:space="preserve"'
            style = 'style="font:13px monospace;fill:#d7dde4"'
            parts.append(f"<text {at} {style}>{_inked(line)}</text>")
    title = "devrt doctor: every plugin, every rule, what is wrong, and the next command"
    return svg(640, len(lines) * 18 + 24, title, parts)


def _inked(line: str) -> str:
    """Return a line with each word behind a mark in the mark's colour."""
    words = []
    for word in line.split(" "):
        ink = INKS.get(word[:1])
        plain = html.escape(word[1:] if ink else word)
        words.append(f'<tspan fill="{ink}">{plain}</tspan>' if ink else plain)
    return " ".join(words)


PICTURES = {
    "life-of-an-array.svg": life_of_an_array,
    "mesh-with-shards.svg": mesh_with_shards,
    "doctor.svg": doctor,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
