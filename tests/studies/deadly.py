"""Tasks for workers to die of, or to refuse; workers import them by name."""

import os
from dataclasses import replace

from adobest_pp.studies import run_function as batches

CELL, RUN = 1, 2


def run_batch(batch):
    """End the process, as a fault in compiled code would, when a certain run is asked for."""
    if batch.index == CELL and RUN in batch.runs:
        os._exit(1)
    return batches.run_batch(batch)


def run_batch_of_other_sources(batch):
    """As if the files of this worker were not those of the driver."""
    return batches.run_batch(replace(batch, sources={**batch.sources, "adobest_pp.adaptive.loop": "other"}))
