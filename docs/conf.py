"""How the documentation is built: ``make docs``, without a network, with every example executed.

Set ``DOCS_EXECUTE=off`` to build the pages without running their examples, in seconds.
"""

import hashlib
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "_ext")]
# Examples run in processes of their own, in empty folders: they find the library and our programs here.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(DOCS / "_ext"), os.environ.get("PYTHONPATH", "")])

import adobest_pp  # noqa: E402

project = "adobest_pp"
author = "the authors of adobest_pp"
release = version = adobest_pp.__version__
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "api_page",
    "course",
    "examples",
    "mathml",
]
exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
nitpicky = True
# Names of other packages are not links, because a build asks no other site for their addresses. Ours must resolve.
nitpick_ignore_regex = [
    ("py:.*", r"(?!adobest_pp\.).*"),
    ("py:obj", r"adobest_pp\.samplers\.[a-z_.]+"),  # modules behind a public class
    ("py:class", r"adobest_pp\.model\.private_response\.PrivateResponseRV"),
]

# Pages: Markdown with formulas between dollar signs.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
html_math_renderer = "mathml"


# Examples: executed once for each state of the library and of the figures that they read.
SUFFIXES = {".py", ".md", ".json", ".nc"}


def _state() -> str:
    folders = ["adobest_pp", "benchmarks", "models", "validation", "docs/_ext"]
    files = sorted(path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


nb_execution_mode = "cache" if os.environ.get("DOCS_EXECUTE") != "off" else "off"
nb_execution_cache_path = str(DOCS / "_build" / "examples" / _state())
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
nb_number_source_lines = False

# The API: one page for each public name, from its docstring.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_preserve_defaults = True
default_role = "code"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "adobest_pp"
html_static_path = ["_static"]
html_copy_source = True
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "show_nav_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}
html_css_files = ["site.css"]
html_sidebars = {"*": []}  # pages that belong to no section have none to navigate
# Summaries would be fetched page by page, which browsers forbid for pages that are opened from a disk.
html_show_search_summary = False
copyright = "the authors of adobest_pp"
