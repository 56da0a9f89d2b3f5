"""What the tests of collections share: a collection of each policy, people who answer, and a look into a file."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

import adobest_pp as ad

LABELS = ["a", "b", "c", "d", "<e>"]
THETA = [0.5, 0.3, 0.1, 0.1, 0]
RRRR = ad.RRRR(5, 1.0, 0.8)
SELECTION = ad.SubsetSelection(5, 2.0)

POLICIES = {
    "same": ad.SameQuestion(ad.SRR(5, 1.0)),
    "same subset": ad.SameQuestion(RRRR, [0, 3]),
    "bits": ad.SameQuestion(ad.UnaryEncoding(5, 1.0)),
    "adaptive": ad.AdaptiveSubset(RRRR),
    "adaptive, some at a time": ad.AdaptiveSubset(RRRR, "semi_adaptive", alpha=0.8, adapt_every=7),
    "adaptive, gibbs": ad.AdaptiveSubset(RRRR, "tv1", sampler="gibbs"),
    "adaptive, exact": ad.AdaptiveSubset(RRRR, "mse", sampler="exact", prior=0.5),
    "adaptive, own steps": ad.AdaptiveSubset(RRRR, "tv1", schedule=ad.DecayingSteps(0.01, 0.6), batch_size=3),
    "rounds": ad.Rounds(SELECTION, n_people=60, rounds=2),
}
# One of each class, for what takes longer.
THREE = {name: POLICIES[name] for name in ("same", "adaptive", "rounds")}


def new(policy, path=None, random_seed=3):
    return ad.Collection.create(path, policy=policy, categories=LABELS, random_seed=random_seed)


def people(n, seed=0):
    return np.random.default_rng(seed).choice(5, size=n, p=THETA)


def answer_all(collection, x, seed):
    """Ask people one by one; the answers are simulated so that two collections can be given the same."""
    rng = np.random.default_rng(seed)
    published = []
    for person in x:
        question = collection.next_question()
        published.append(question)
        collection.record(question.privatize(person, rng=rng), question)
    return published


def copied(path):
    """Return a copy of what is on disk now: as if the process had been killed."""
    folder = Path(tempfile.mkdtemp(dir=path.parent.parent))
    for name in (path.name, f"{path.name}-wal"):
        if path.with_name(name).exists():
            shutil.copy(path.with_name(name), folder / name)
    return folder / path.name


def assert_same(first, second):
    xr.testing.assert_identical(first.responses.to_xarray(), second.responses.to_xarray())
    assert first.records == second.records
    assert first.next_question() == second.next_question()
    assert first._chooser.state() == second._chooser.state()
