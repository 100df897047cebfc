"""Sphinx: Markdown pages and a reference from the docstrings. Needs no network."""

project = "devrt"
copyright = "the devrt authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
myst_heading_anchors = 3
suppress_warnings = ["ref.python"]  # one class under two public names
