"""Sphinx configuration: furo, Markdown, formulas as MathML; a site that needs no network to be read."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "thresher"
author = "the thresher developers"
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "offline_math", "inline_figures",
              "plain_docstrings"]  # fmt: skip
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "thresher"
html_static_path = ["_static"]
html_css_files = ["thresher.css"]
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False

autodoc_typehints = "none"  # docstrings have shapes and words instead
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_custom_sections = ["Cost"]
add_module_names = False
nitpicky = False
