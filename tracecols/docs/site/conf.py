"""Sphinx configuration of the site: ``sphinx-build -W --keep-going -c tracecols/docs/site tracecols/docs OUT``; nothing
is fetched from the network."""

from __future__ import annotations

from tracecols.version import __version__

project = "tracecols"
author = "the authors of tracecols"
release = version = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "tracecols.docs.site.extension",
]
root_doc = "index"
exclude_patterns = ["site", "__pycache__"]

# The outputs saved in notebooks are shown. Notebooks are not executed here: tests/docs/test_tutorial.py executes them
# and compares their output with the saved one, so that saved outputs are current if the tests pass.
nb_execution_mode = "off"
nb_merge_streams = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "groupwise"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "tracecols"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
