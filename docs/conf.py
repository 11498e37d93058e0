# SPDX-License-Identifier: Apache-2.0
"""The site: Sphinx reads a copy of docs/ with tools/api_docs.py's pages."""

project = "opgraft"
author = "the opgraft authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "opgraft"
html_static_path: list[str] = []
html_show_copyright = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
myst_heading_anchors = 4
exclude_patterns = ["results"]
nitpicky = True
# Excerpts of C and of printed text need not be whole programs.
suppress_warnings = ["misc.highlighting_failure"]
