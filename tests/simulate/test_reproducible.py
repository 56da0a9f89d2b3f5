"""The same seed gives the same run, bit for bit, wherever and beside whatever it runs."""

import hashlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import adobest_pp as ad
from adobest_pp.collect.policies import AdaptiveSubset
from adobest_pp.simulate import simulate_adaptive

THETA = [0.4, 0.3, 0.2, 0.05, 0.05]


def digest(seed, sampler="sgld"):
    run = simulate_adaptive(
        THETA, AdaptiveSubset(ad.RRRR(5, 1.0), "honest", sampler=sampler), n_people=400, random_seed=seed
    )
    whole = hashlib.sha256()
    for part in (run.chain_mean, run.path, run.sizes, run.responses.answers, run.responses.subsets):
        whole.update(np.ascontiguousarray(part).tobytes())
    return whole.hexdigest()


@pytest.mark.parametrize("sampler", ["sgld", "gibbs", "exact"])
def test_again_and_beside_other_runs_in_threads(sampler):
    expected = digest(5, sampler)
    results = {}
    threads = [threading.Thread(target=lambda s=s: results.update({s: digest(s, sampler)})) for s in (5, 6, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[5] == expected
    assert len(set(results.values())) == 3


def test_in_another_process_and_beside_it():
    program = "from tests.simulate.test_reproducible import digest; print(digest(5), digest(5, 'exact'))"
    root = Path(__file__).parents[2]
    other = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root)
    here = [digest(5), digest(5, "exact")]
    assert other.communicate(timeout=120)[0].split() == here


def test_a_seed_sequence_stands_for_its_entropy_and_spawn_key():
    assert digest(np.random.SeedSequence(5)) == digest(5)
    parent = np.random.SeedSequence(5)
    first, second = parent.spawn(2)
    assert digest(first) == digest(np.random.SeedSequence(5, spawn_key=(0,)))
    assert digest(first) == digest(first)  # nothing was spawned from it
    assert len({digest(parent), digest(first), digest(second)}) == 3


def test_a_run_without_a_seed_says_which_one_it_had():
    one = simulate_adaptive(THETA, AdaptiveSubset(ad.RRRR(5, 1.0)), n_people=50)
    two = simulate_adaptive(THETA, AdaptiveSubset(ad.RRRR(5, 1.0)), n_people=50)
    assert one.settings["random_seed"] != two.settings["random_seed"]
    again = simulate_adaptive(
        THETA, AdaptiveSubset(ad.RRRR(5, 1.0)), n_people=50, random_seed=one.settings["random_seed"]["entropy"]
    )
    np.testing.assert_array_equal(again.chain_mean, one.chain_mean)
    np.testing.assert_array_equal(again.responses.answers, one.responses.answers)
