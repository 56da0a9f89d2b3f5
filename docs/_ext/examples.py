"""How the examples of pages are run: on as many processors as Sphinx was given, and by quiet kernels.

Sphinx gives neighbors in its list of pages to one process. Pages with examples are neighbors there, so one process
would run nearly all of them, one after another. So the list is shuffled before it is divided.
"""

import os
from pathlib import Path

from jupyter_cache import get_cache
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

APART = 12  # this many neighbors are far from each other afterwards
# Kernels do not read the user's own IPython settings, and do not warn that others on this machine could listen.
SETTINGS = "c.IPKernelApp.log_level = 'ERROR'\n"


def prepare(app: Sphinx) -> None:
    """Make the shared cache before there are several processes: two that make it at once would collide."""
    if app.config.nb_execution_mode == "cache":
        _ = get_cache(app.config.nb_execution_cache_path).db
        profile = Path(app.config.nb_execution_cache_path) / "ipython" / "profile_default"
        profile.mkdir(parents=True, exist_ok=True)
        (profile / "ipython_kernel_config.py").write_text(SETTINGS, encoding="utf-8")
        os.environ["IPYTHONDIR"] = str(profile.parent)


def shuffle(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    """Put neighbors far from each other."""
    names[:] = [name for first in range(APART) for name in names[first::APART]]


def setup(app: Sphinx) -> dict[str, bool]:
    """Prepare before the build, and shuffle before pages are read."""
    app.connect("builder-inited", prepare)
    app.connect("env-before-read-docs", shuffle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
