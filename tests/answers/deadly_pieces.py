"""Pieces for workers to die of; workers import them by name."""

import os

from adobest_pp.answers.gather import pieces

ALWAYS, ONCE = "always.parquet", "once.parquet"


def read_piece(task):
    """End the process, as a fault in compiled code would: at every reading of a file, or at the first of another."""
    folder, name = os.path.split(task[0].path)
    mark = os.path.join(folder, "seen")
    if name == ALWAYS or (name == ONCE and not os.path.exists(mark)):
        open(mark, "w").close()
        os._exit(1)
    return pieces.read_piece(task)
