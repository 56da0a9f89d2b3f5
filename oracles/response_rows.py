"""The row of G behind every response: the dense form of a data set."""

from itertools import combinations

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


def answer_rows(responses):
    """Return g(y|·) of every response of any mechanism, also of several, of shape (n, K), from the definitions."""
    mechanism = responses.mechanism
    if type(mechanism).__name__ != "Mixed":
        subsets = responses.subsets[responses.subset_index] if mechanism.publishes_subset else [None] * len(responses)
        pairs = zip(responses.answers, subsets, strict=True)
        return np.array([answer_row(mechanism, y, mask) for y, mask in pairs]).reshape(-1, responses.n_categories)
    rows = []
    for i, (part, *numbers) in enumerate(responses.answers):
        own = mechanism.parts[part]
        width = int(np.prod([*own.answer_dims.values()], dtype=int))
        answer = np.array(numbers[:width]) if own.answer_dims else numbers[0]
        mask = responses.subsets[responses.subset_index[i]] if own.publishes_subset else None
        rows.append(answer_row(own, answer, mask))
    return np.array(rows).reshape(-1, responses.n_categories)


def answer_row(mechanism, answer, mask):
    """Return P(answer | x) for every x, from the definition of the mechanism."""
    name, k, e = type(mechanism).__name__, mechanism.n_categories, np.exp(mechanism.epsilon)
    x = np.arange(k)
    if name == "SRR":
        return np.where(x == answer, e, 1.0) / (e + k - 1)
    if name == "RRRR":
        second = mechanism.epsilon2(int(mask.sum()))
        return rrrr_matrix(k, np.flatnonzero(mask), mechanism.epsilon1, second)[answer]
    if name == "SubsetSelection":
        places = {tuple(z): i for i, z in enumerate(combinations(range(k), mechanism.size))}
        return subset_selection_matrix(k, mechanism.size, mechanism.epsilon)[places[tuple(answer)]]
    if name == "UnaryEncoding":  # OUE: the bit of x is 1 with probability ½, the others with 1/(e^ε + 1)
        ones = np.where(np.eye(k, dtype=bool), 0.5, 1 / (e + 1))
        return np.where(np.asarray(answer) == 1, ones, 1 - ones).prod(axis=1)
    if name == "LocalHashing":
        seed, value = answer
        hashed = np.array([_xxhash32(str(i).encode(), int(seed)) % mechanism.g for i in range(k)])
        return np.where(hashed == value, e, 1.0) / (e + mechanism.g - 1)  # given the seed, which is public
    if name == "HadamardResponse":
        m = 1 << k.bit_length()
        sign = np.array([1 if bin((i + 1) & int(answer)).count("1") % 2 == 0 else -1 for i in range(k)])
        return np.where(sign == 1, e, 1.0) * 2 / (m * (e + 1))
    if name == "SetFamily":
        holds = np.array([[i in z for i in range(k)] for z in mechanism.sets])
        weights = np.asarray(mechanism.weights)[:, None] * np.where(holds, e, 1.0)
        return (weights / weights.sum(axis=0))[answer]
    return np.asarray(mechanism.matrix)[answer]


def _xxhash32(data, seed):
    """XxHash32 of fewer than 16 bytes, from its specification."""
    state = seed + 374761393 + len(data)
    while len(data) >= 4:
        state = (state + int.from_bytes(data[:4], "little") * 3266489917) & 0xFFFFFFFF
        state = _rotate(state, 17) * 668265263
        data = data[4:]
    for byte in data:
        state = _rotate((state + byte * 374761393) & 0xFFFFFFFF, 11) * 2654435761
    state &= 0xFFFFFFFF
    state = ((state ^ (state >> 15)) * 2246822519) & 0xFFFFFFFF
    state = ((state ^ (state >> 13)) * 3266489917) & 0xFFFFFFFF
    return state ^ (state >> 16)


def _rotate(state, bits):
    return ((state << bits) | (state >> (32 - bits))) & 0xFFFFFFFF
