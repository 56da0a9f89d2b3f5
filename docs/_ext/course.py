"""The course on the site: a list of the lessons, and a page of each that needs no Python.

The pages are made beside the rest of the build, and once for each state of the library, as the examples are.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

from adobest_pp.teaching.pages import LESSONS

PLACE = "lessons"


class Course(SphinxDirective):
    """Write the list of lessons."""

    def run(self) -> list[nodes.Node]:
        """Return a numbered list with the links of each lesson."""
        lines = []
        for lesson in LESSONS:
            title = f"[{lesson.title}]({PLACE}/{lesson.name}.html)" if _runs(self.env.app) else lesson.title
            end = "" if lesson.title.endswith("?") else "."
            lines += [f"1. **{title}{end}** {lesson.about}"]
        if _runs(self.env.app):
            others = [f"[{name}]({PLACE}/{name}.html)" for name in ("syllabus", "homework")]
            lines += ["", f"[All lessons on one page]({PLACE}/index.html), with {' and '.join(others)}."]
        parent = nodes.section()
        nested_parse_with_titles(self.state, StringList(lines, "lessons"), parent)
        # These are files of the finished site, not documents, so they need plain addresses.
        for link in list(parent.findall(lambda node: "reftarget" in getattr(node, "attributes", {}))):
            address = nodes.reference(link.astext(), link.astext(), internal=True, refuri=str(link["reftarget"]))
            link.replace_self(address)
        return parent.children


def _runs(app: Sphinx) -> bool:
    return bool(app.config.nb_execution_mode != "off")


def _cache(app: Sphinx) -> Path:
    return Path(app.config.nb_execution_cache_path) / PLACE


def begin(app: Sphinx) -> None:
    """Start making the pages of the lessons, unless this state of the library has them."""
    if app.builder.name == "html" and _runs(app) and not (_cache(app) / "index.html").is_file():
        command = [sys.executable, "-m", "adobest_pp", "teach", "--pages", f"{_cache(app)}.part"]
        app.making = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(app: Sphinx, failed: Exception | None) -> None:
    """Put the pages of the lessons beside the site."""
    making = getattr(app, "making", None)
    if making is not None:
        _, said = making.communicate()
        if making.returncode:
            raise RuntimeError(f"the pages of the lessons could not be made: {said[-2000:]}")
        os.replace(f"{_cache(app)}.part", _cache(app))
    if failed is not None or app.builder.name != "html":
        return
    if _runs(app):
        shutil.copytree(_cache(app), Path(app.outdir) / PLACE, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive, and make the pages of the lessons during the build."""
    app.add_directive("course", Course)
    app.connect("builder-inited", begin)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
