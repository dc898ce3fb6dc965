"""Sphinx configuration: ``make docs`` builds the pages into build/docs."""

from importlib import metadata

project = "NIMO for Slurm"
author = "The NIMO for Slurm developers"
release = metadata.version("nimo-slurm")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = project
exclude_patterns = ["_build"]
