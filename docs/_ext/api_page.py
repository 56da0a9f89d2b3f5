"""The API pages, made from the public names of the modules: a new name in an ``__all__`` is a new page."""

from importlib import import_module
from inspect import getdoc, ismodule
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

import adobest_pp

# Public, though not an attribute of the package: `adobest compare` calls it.
MORE_MODULES = ("report",)


def public_names() -> dict[str, list[str]]:
    """Return the full names to document, by module: as ``adobest_pp.SRR`` where the package has the name itself."""
    top = {name for name in adobest_pp._HOMES if not ismodule(getattr(adobest_pp, name))}
    listed: dict[str, list[str]] = {}
    for module in sorted({*adobest_pp._MODULES, *MORE_MODULES}):
        names = import_module(f"adobest_pp.{module}").__all__
        listed[module] = [f"adobest_pp.{name}" if name in top else f"adobest_pp.{module}.{name}" for name in names]
        listed[module] = [part for name in listed[module] for part in _within(name)]
    rest = top - {name.rpartition(".")[2] for names in listed.values() for name in names}
    for name in sorted(rest):
        listed.setdefault(adobest_pp._HOMES[name].partition(".")[0], []).append(f"adobest_pp.{name}")
    return listed


def _within(name: str) -> list[str]:
    """Return the names of a module that is itself a public name, or the name."""
    home, _, last = name.rpartition(".")
    thing = getattr(import_module(home), last)
    return [f"{thing.__name__}.{part}" for part in thing.__all__] if ismodule(thing) else [name]


def page() -> str:
    """Return the page that lists every public name, in reStructuredText."""
    first = "Every public name, from its docstring. The usual import is ``import adobest_pp as ad``."
    lines = ["API", "===", "", first, ""]
    for module, names in public_names().items():
        summary = (getdoc(import_module(f"adobest_pp.{module}")) or "").partition("\n")[0]
        lines += [f"adobest_pp.{module}", "-" * (11 + len(module)), "", summary, ""]
        lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in sorted(names, key=str.lower)] + [""]
    return "\n".join(lines)


def _write(app: Sphinx, config: Config) -> None:
    target = Path(app.confdir) / "api" / "index.rst"
    target.parent.mkdir(exist_ok=True)
    names = {name for names in public_names().values() for name in names}
    for old in (target.parent / "generated").glob("*.rst"):
        if old.stem not in names:  # a name that is no longer public
            old.unlink()
    if not target.is_file() or target.read_text(encoding="utf-8") != page():
        target.write_text(page(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx looks for pages."""
    app.connect("config-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
