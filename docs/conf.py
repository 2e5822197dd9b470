"""Sphinx's settings for the documentation: `make docs`. The pages are the Markdown files of the checkout, in place."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lrq  # noqa: E402 - the checkout, which the line above makes importable

project = "lrq"
author = "the authors of lrq"
version = release = lrq.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "tools.reference.extension"]

# Links of the pages are those that work on GitHub, so the folder of the sources is the checkout.
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/**.md"]
exclude_patterns = [".*", "build", "dist", "mutants", "tests", "**/node_modules"]
templates_path = ["_templates"]
html_additional_pages = {"index": "start.html"}

myst_heading_anchors = 4
nitpicky = True
# Types of other projects and the private ones of this project have no page.
nitpick_ignore_regex = [("py:.*", ".*")]
highlight_language = "text"
default_role = "literal"
# Otherwise --option becomes –option.
smartquotes = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_title = f"lrq {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def setup(app: "Sphinx") -> None:
    """Show the text of a diagram, which GitHub draws."""
    app.add_lexer("mermaid", TextLexer)
