"""Settings shared by all tests.

Hypothesis runs the same examples every time, without a time limit per example. Numba keeps compiled functions by the
state of their own file and does not notice an edit in a file they call, so its cache is one per state of all sources.
"""

import hashlib
import os
import shutil
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_CACHES = _ROOT / ".numba_cache"
_sources = b"".join(path.read_bytes() for path in sorted((_ROOT / "adobest_pp").rglob("*.py")))
_current = _CACHES / hashlib.sha256(_sources).hexdigest()[:16]
for _cache in _CACHES.glob("*"):
    if _cache != _current:
        shutil.rmtree(_cache, ignore_errors=True)
os.environ["NUMBA_CACHE_DIR"] = str(_current)

from hypothesis import settings  # noqa: E402

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")
