"""Evidence is a sum: pieces of it, merged in any order, are that of all answers to the last bit."""

import numpy as np
import pytest

import adobest_pp as ad
from tests.refusals import refuses
from tests.strategies import simulated

K = 5
MECHANISMS = [
    ad.SRR(K, 1.0),
    ad.RRRR(K, 2.0, 0.8),
    ad.RRRR(K, 2.0, 1.0),  # the empty subset and one of K − 1 categories give the same rows
    ad.RRRR.from_budgets(K, 0.7, 0.1),  # and here the empty subset has the largest base
    ad.UnaryEncoding(K, 0.5),
    ad.SubsetSelection(K, 1.0, 2),
    ad.LocalHashing(K, 1.5),
    ad.HadamardResponse(K, 1.0),
    ad.SetFamily([[i] for i in range(K)], [1] * K, 1.0),
    ad.Channel([[0.5, 0.4, 0.6, 0.4, 0.5], [0.25, 0.3, 0.2, 0.3, 0.25], [0.25, 0.3, 0.2, 0.3, 0.25]]),
]


def part(responses, places):
    """Return some of the responses."""
    tables = {}
    if responses.mechanism.publishes_subset:
        tables = {"subsets": responses.subsets, "subset_index": responses.subset_index[places]}
    return ad.Responses.from_arrays(responses.mechanism, responses.answers[places], **tables)


def pieces_of(responses, seed):
    """Return the responses cut at random, one piece empty, in another order."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(len(responses))
    cuts = np.sort(rng.integers(0, len(responses), size=4))
    parts = [part(responses, each) for each in [*np.split(places, cuts), places[:0]]]
    return [parts[i] for i in rng.permutation(len(parts))]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_merged_pieces_are_the_whole_to_the_last_bit(mechanism, seed):
    whole = simulated(mechanism, 200, seed)
    first, *others = [each.evidence() for each in pieces_of(whole, seed)]
    assert first.merge(*others) == whole.evidence()
    assert first.merge(others[0]).merge(*others[1:]) == whole.evidence()
    assert whole.evidence().merge() == whole.evidence()


def test_other_mechanisms_merge_to_the_evidence_of_concat():
    other = ad.Channel([[0.2, 0.3, 0.2, 0.3, 0.2], [0.8, 0.7, 0.8, 0.7, 0.8]])  # rows of its own beside those of before
    mechanisms = [*MECHANISMS, other]
    all_responses = [simulated(mechanism, 30, i) for i, mechanism in enumerate(mechanisms)]
    whole = ad.concat(all_responses).evidence()
    first, *others = [each.evidence() for each in reversed(all_responses)]
    assert first.merge(*others) == whole
    assert whole.n_responses == 30 * len(mechanisms)
    theta = np.arange(1.0, K + 1) / 15
    expected = sum(ad.likelihood.log_likelihood(theta, each.evidence()) for each in all_responses)
    assert ad.likelihood.log_likelihood(theta, whole) == pytest.approx(expected)


def test_merging_does_not_count_in_floating_point():
    evidence = ad.Responses.from_arrays(ad.SRR(2, 1.0), [0]).evidence()
    many = evidence._replace(count=np.array([2**53]))
    assert many.merge(evidence).n_responses == 2**53 + 1


def test_what_cannot_be_merged_is_told_in_one_sentence():
    evidence = ad.Responses.from_arrays(ad.SRR(3, 1.0), [0]).evidence()
    other = ad.Responses.from_arrays(ad.SRR(2, 1.0), [0]).evidence()
    with refuses("others"):
        evidence.merge(other)
    with refuses("others"):
        evidence.merge([0, 1])
    with refuses("others"):
        evidence.merge(evidence)
    twice = ad.Responses.from_arrays(ad.SRR(3, 1.0), [1]).evidence()
    with refuses("others"):
        evidence.merge(twice, twice)
