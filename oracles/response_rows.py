"""The row of G behind every response: the dense form of a data set."""

import numpy as np

from oracles.mechanisms import rrrr_matrix, subset_selection_matrix


def rows_of(responses):
    """Return g(y|·) of every response of SRR, RRRR or subset selection, of shape (n, K)."""
    return _ROWS[type(responses.mechanism).__name__](responses).reshape(-1, responses.n_categories)


def _srr_rows(responses):
    return rrrr_matrix(responses.n_categories, [], 0.0, responses.mechanism.epsilon)[responses.answers]


def _subset_selection_rows(responses):
    mechanism = responses.mechanism
    places = {tuple(z): i for i, z in enumerate(mechanism.outputs())}
    matrix = subset_selection_matrix(responses.n_categories, mechanism.size, mechanism.epsilon)
    return matrix[[places[tuple(z)] for z in responses.answers]]


def _rrrr_rows(responses):
    mechanism, k = responses.mechanism, responses.n_categories
    matrices = [
        rrrr_matrix(k, np.flatnonzero(mask), mechanism.epsilon1, mechanism.epsilon2(int(mask.sum())))
        for mask in responses.subsets
    ]
    pairs = zip(responses.answers, responses.subset_index, strict=True)
    return np.array([matrices[index][answer] for answer, index in pairs])


_ROWS = {"SRR": _srr_rows, "RRRR": _rrrr_rows, "SubsetSelection": _subset_selection_rows}
