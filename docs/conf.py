"""Sphinx: Markdown pages and a reference from the docstrings. Needs no network."""

import importlib
import types
from typing import Any

project = "devrt"
copyright = "the devrt authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
myst_heading_anchors = 3
suppress_warnings = ["ref.python"]  # one class under two public names

# The modules of the reference. An object with several public names is described once, in the
# first of them that has it; the others only name it.
MODULES = [
    "devrt",
    *("devrt.programs", "devrt.topology", "devrt.layout"),
    "devrt.checkpoint_policies",
    *(
        "devrt.sharding",
        "devrt.arrays",
        "devrt.numpy",
        "devrt.numpy.linalg",
        "devrt.numpy.fft",
        "devrt.random",
        "devrt.lax",
        "devrt.nn",
        "devrt.debug",
        "devrt.dlpack",
        "devrt.distributed",
        "devrt.distributed.collectives",
        "devrt.experimental.multihost_utils",
        "devrt.experimental.transfer",
        "devrt.tree_util",
        "devrt.tree",
    ),
    *("devrt.runtime", "devrt.doctor", "devrt.compiling", "devrt.compiling.cache", "devrt.errors"),
    *("devrt.contract", "devrt.records", "devrt.dtypes", "devrt.hookspecs", "devrt.hardware"),
    *("devrt.testing", "devrt.testing.conformance"),
    *("devrt.contract.installation", "devrt.contract.conflicts"),
    *("devrt.xla_client", "devrt.xla_bridge", "devrt_pjrt"),
]


def homes() -> dict[int, str]:
    """Return the module that describes an object, by the object's identity."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for member in module.__all__:
            value = getattr(module, member)
            if callable(value):  # constants of one value are different things
                found.setdefault(id(value), name)
    return found


def described_elsewhere(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out a module's member that another page describes, and modules, which all have one."""
    if isinstance(obj, types.ModuleType):
        return True
    home = HOMES.get(id(obj)) if what == "module" else None
    return True if home and home != app.env.current_document.autodoc_module else None


def name_the_others(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Name at the head of a module what it has and another page describes."""
    if what != "module":
        return
    members = [(member, HOMES.get(id(getattr(obj, member)))) for member in obj.__all__]
    others = [f":py:obj:`~{home}.{member}`" for member, home in members if home and home != name]
    if others:
        lines += ["", f"Also here, described elsewhere: {', '.join(others)}.", ""]


def setup(app: Any) -> None:
    """Connect the rule that everything is described once."""
    app.connect("autodoc-skip-member", described_elsewhere)
    app.connect("autodoc-process-docstring", name_the_others)


HOMES = homes()
