"""The pages of the API, made from what the modules declare public: a new name in an ``__all__`` is a new page."""

from importlib import import_module
from inspect import getdoc
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

import adobest_pp

# Public, though not an attribute of the package: `adobest compare` calls it.
MORE_MODULES = ("report",)


def public_names() -> dict[str, list[str]]:
    """Return the full names to document, by module: as ``adobest_pp.SRR`` where the package has the name itself."""
    top = {name for name in adobest_pp.__all__ if name not in adobest_pp._MODULES and not name.startswith("_")}
    listed: dict[str, list[str]] = {}
    for module in sorted({*adobest_pp._MODULES, *MORE_MODULES}):
        names = import_module(f"adobest_pp.{module}").__all__
        listed[module] = [f"adobest_pp.{name}" if name in top else f"adobest_pp.{module}.{name}" for name in names]
    rest = top - {name.rpartition(".")[2] for names in listed.values() for name in names}
    homes = {name: adobest_pp._HOMES[name].partition(".")[0] for name in sorted(rest)}
    for name, module in homes.items():
        listed[module].append(f"adobest_pp.{name}")
    return listed


def page() -> str:
    """Return the page that lists every public name, in reStructuredText."""
    lines = ["API", "===", "", "Every public name, from its docstring. The usual import is ``import adobest_pp as ad``.", ""]
    for module, names in public_names().items():
        summary = (getdoc(import_module(f"adobest_pp.{module}")) or "").partition("\n")[0]
        lines += [f"adobest_pp.{module}", "-" * (11 + len(module)), "", summary, ""]
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in sorted(names, key=str.lower)] + [""]
    return "\n".join(lines)


def _write(app: Sphinx, config: Config) -> None:
    target = Path(app.confdir) / "api" / "index.rst"
    target.parent.mkdir(exist_ok=True)
    if not target.is_file() or target.read_text(encoding="utf-8") != page():
        target.write_text(page(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx looks for pages."""
    app.connect("config-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
