"""Figures as files that are the same for the same figure."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from adobest_pp._files import replacing

__all__ = ["save_figure"]

# Without these the same figure would not give the same files: no dates, and no random names within.
METADATA: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None}}


def save_figure(figure: Any, folder: Path, name: str, dpi: int) -> tuple[Path, Path]:
    """Save a figure as PNG and as SVG, each whole or not at all; close it, and return both paths."""
    png, svg = (folder / f"{name}.{suffix}" for suffix in METADATA)
    salt: Any = {"svg.hashsalt": name}
    try:
        with plt.rc_context(salt):
            for path in (png, svg):
                kind = path.suffix.removeprefix(".")
                with replacing(path) as temporary:
                    figure.savefig(temporary, format=kind, dpi=dpi, metadata=METADATA[kind])
                figure.set_layout_engine("none")  # the layout is found, which takes most of the time
    finally:
        plt.close(figure)
    return png, svg
