"""Sphinx configuration: ``make docs`` builds the pages into build/docs."""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "NIMO for Slurm"
author = "The NIMO for Slurm developers"
release = metadata.version("nimo-slurm")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml", "reference"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
smartquotes = False  # -- is an option here, not a dash
html_theme = "furo"
html_title = project
html_show_copyright = False
exclude_patterns = ["_build"]
