"""The time that `privatize` takes tells next to nothing about x that a simple classifier can find.

ε covers the answer alone. A program beside the device, or a server that sees when an answer was asked for and when it
came, may also know how long one call took. Here that time alone is used to tell two groups of people apart. The
classifier learns from one half of the calls which times, in twentieths, are more frequent in which group, and is tried
on the other half. 50 % is guessing; the same x in both groups shows how far the measurement itself is from that.
Then some x are called one after the other, in random order, again and again: the median of the differences between two
calls of one block shows what the noise of single calls hides. The entropy drawn is counted too: it must be the same
whatever x is.
Exits with 1 if a finding stated below is not reproduced.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from adobest_pp import (
    RRRR,
    SRR,
    Channel,
    CountMeanSketch,
    HadamardResponse,
    LocalHashing,
    ProjectiveGeometryResponse,
    SetFamily,
    SubsetSelection,
    UnaryEncoding,
)
from adobest_pp._checks import check_private
from adobest_pp.mechanisms import exact
from validation.common import Finding, Options, each, finding, main, shown, table

K, EPSILON, SUBSET = 20, 1.0, [0, 1, 2, 3, 4]
BINS = 20
# Figures stand out beyond these, after four of their standard errors (false alarm 3e-5 each). What is left between two
# x is a few nanoseconds of the interpreter's own: caches, and operations whose time depends on a number.
GUESSING, LEFT = 0.51, 0.55
# The x that are compared with the last of them, and the nanoseconds that a median difference may be: one tick of a
# clock that counts in tens.
COMPARED, TICK = (0, 1, 2, 12, 19, 7), 10.0

Privatize = Callable[[int], Any]


class Case(NamedTuple):
    """A mechanism's production path, the two x that are called in turn, and what separates the groups."""

    name: str
    privatize: Privatize
    x: tuple[int, int]
    by_answer: bool = False  # whether the answer holds x, instead of which x it was


def cases() -> list[Case]:
    """Return what to tell apart."""
    rrrr, srr, selection = RRRR(K, EPSILON), SRR(K, EPSILON), SubsetSelection(K, EPSILON)

    def within(x: int) -> int:
        return int(rrrr.privatize(x, subset=SUBSET))

    return [
        Case("RRRR: x in S, or not", within, (2, 12)),
        Case("RRRR: two x in S", within, (0, 4)),
        Case("RRRR: the answer is x in S, or not", within, (2, 2), by_answer=True),
        Case("RRRR: the answer is x outside S, or not", within, (12, 12), by_answer=True),
        Case("SRR: the same x in both groups", srr.privatize, (7, 7)),
        Case("SRR: two x", srr.privatize, (2, 12)),
        Case("SRR: two x far apart", srr.privatize, (0, 18)),
        Case("SRR: the answer is x, or not", srr.privatize, (2, 2), by_answer=True),
        Case("subset selection: two x", selection.privatize, (2, 12)),
        Case("subset selection: the answer holds x, or not", selection.privatize, (2, 2), by_answer=True),
        Case("unary encoding: two x", UnaryEncoding(K, EPSILON).privatize, (2, 12)),
        Case("local hashing: two x", LocalHashing(K, EPSILON).privatize, (2, 12)),
        Case("Hadamard response: two x", HadamardResponse(K, EPSILON).privatize, (2, 12)),
        Case("projective geometry: two x", ProjectiveGeometryResponse(K, EPSILON).privatize, (2, 12)),
        Case("count-mean sketch: two x", CountMeanSketch(K, EPSILON).privatize, (2, 12)),
        Case("a channel: two x", Channel(_channel()).privatize, (2, 12)),
    ]


def _channel() -> NDArray[np.float64]:
    """Return a matrix whose columns, in binary, do not sum to the same number."""
    matrix = np.tile([[0.1], [0.4], [0.5]], K)
    matrix[:, 12] = [0.4, 0.3, 0.3]
    return matrix


def timed(case: Case, calls: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return how long each call took, in nanoseconds, and its group; the two x come in random order."""
    for _ in range(min(calls, 1000)):  # the first calls are slow
        case.privatize(case.x[0])
    group = rng.random(calls) < 0.5
    times = np.empty(calls)
    for i in range(calls):
        x = case.x[int(group[i])]
        began = time.perf_counter_ns()
        answer = case.privatize(x)
        times[i] = time.perf_counter_ns() - began
        if case.by_answer:
            group[i] = x in np.ravel(answer)
    return times, group


def accuracy(times: NDArray[np.float64], group: NDArray[np.bool_]) -> tuple[float, float]:
    """Return how often the classifier is right on the second half, averaged over the groups, and its standard error.

    Times are taken relative to those of the calls around, since the speed of a machine drifts.
    """
    half = times.size // 2
    relative = times / median_filter(times, 101)
    edges = np.quantile(relative[:half], np.arange(1, BINS) / BINS)
    bins = np.searchsorted(edges, relative)
    shares = [np.bincount(bins[:half][group[:half] == g], minlength=BINS) for g in (False, True)]
    guess = (shares[1] / shares[1].sum() > shares[0] / shares[0].sum())[bins[half:]]
    right = [guess[group[half:] == g] == g for g in (False, True)]
    error = 0.25 * np.sqrt(sum(1 / one.size for one in right))
    return float(np.mean([one.mean() for one in right])), float(error)


def differences(call: Privatize, blocks: int, rng: np.random.Generator) -> dict[int, tuple[float, float]]:
    """Return how much longer a call takes than with the last x of `COMPARED`: medians in nanoseconds, and their errors.

    Every block calls all of them once, in random order, so that a machine's drift affects all alike.
    """
    for x in COMPARED * 200:
        call(x)
    times = np.empty((blocks, len(COMPARED)))
    for block in times:
        for i in rng.permutation(len(COMPARED)).tolist():
            x = COMPARED[i]
            began = time.perf_counter_ns()
            call(x)
            block[i] = time.perf_counter_ns() - began
    longer = times[:, :-1] - times[:, -1:]
    medians = np.median(longer, axis=0)
    # That of a median is 1.25 standard deviations over √n, with the median deviation times 1.48 as the former.
    errors = 1.2533 * 1.4826 * np.median(np.abs(longer - medians), axis=0) / np.sqrt(blocks)
    return {x: (float(m), float(e)) for x, m, e in zip(COMPARED, medians, errors, strict=False)}


def compared() -> dict[str, Privatize]:
    """Return what is called with every x, by name: the check that all share, and every mechanism."""
    rrrr = RRRR(K, EPSILON)
    neighbors = [[x, (x + 1) % K, (x + 2) % K] for x in range(K)]
    return {
        "check_private": lambda x: check_private(x, K),
        "SRR": SRR(K, EPSILON).privatize,
        "RRRR": lambda x: rrrr.privatize(x, subset=SUBSET),
        "subset selection": SubsetSelection(K, EPSILON).privatize,
        "unary encoding": UnaryEncoding(K, EPSILON).privatize,
        "local hashing": LocalHashing(K, EPSILON).privatize,
        "Hadamard response": HadamardResponse(K, EPSILON).privatize,
        "projective geometry response": ProjectiveGeometryResponse(K, EPSILON).privatize,
        "count-mean sketch": CountMeanSketch(K, EPSILON).privatize,
        "a channel": Channel(_channel()).privatize,
        "a family of sets": SetFamily(neighbors, [1] * K, EPSILON).privatize,
    }


def difference_findings(quick: bool, rng: np.random.Generator) -> list[Finding]:
    """Print the median differences, and return the finding about them."""
    blocks = 20 if quick else 20_000
    calls = compared()
    found = dict(zip(calls, each(lambda name: differences(calls[name], blocks, rng), list(calls), "x"), strict=True))
    print(f"\nNanoseconds that a call takes longer than with x = {COMPARED[-1]}: medians of {blocks:,} differences\n")
    rows = [[name, *(shown("{:.0f} ± {:.1f}", m, e) for m, e in those.values())] for name, those in found.items()]
    table(["", *(f"x = {x}" for x in COMPARED[:-1])], rows, name="differences")
    if quick:
        return []
    beyond = max(abs(m) - 4 * e for those in found.values() for m, e in those.values())
    text = "no x takes longer than another by more than a tick of the clock, in the median"
    return [finding("differences", text, beyond <= TICK, largest_lower_bound=beyond, limit=TICK)]


def entropy_drawn(privatize: Privatize, x: int) -> list[int]:
    """Return how many words of entropy each request of one call takes; the words are such that none is refused."""
    requests: list[int] = []

    def words(n: int) -> NDArray[np.uint64]:
        requests.append(n)
        return np.full(n, len(requests) << 56, dtype=np.uint64)

    original, exact._words = exact._words, words
    try:
        privatize(x)
    finally:
        exact._words = original
    return requests


def findings(options: Options) -> list[Finding]:
    """Print every figure and return the findings."""
    rng = np.random.default_rng(options.seed)
    # 2.4 % of answers are x outside S: of 1,500 calls each half has some (but in one of 3e7 runs)
    calls = 1500 if options.quick else 100_000

    def examine(case: Case) -> tuple[float, float, list[float]]:
        times, group = timed(case, calls, rng)
        return *accuracy(times, group), [float(np.median(times[group == g])) / 1000 for g in (False, True)]

    tried = cases()
    found = each(examine, tried, "timing")
    print(
        f"K = {K}, ε = {EPSILON:g}, S of {len(SUBSET)} categories, {calls} calls each: median microseconds of the two"
    )
    print("groups, and how often the time alone tells them apart\n")
    rows = [
        [case.name, *medians, shown("{:.1%} ± {:.1%}", right, error)]
        for case, (right, error, medians) in zip(tried, found, strict=True)
    ]
    table(["what is compared", "first", "second", "right ± its standard error"], rows, 4, "groups")
    same = all(len({tuple(entropy_drawn(case.privatize, x)) for x in range(K)}) == 1 for case in tried)
    result = [finding("entropy", "the entropy drawn is the same whatever is held", same)]
    result += difference_findings(options.quick, rng)
    if not options.quick:  # a few calls on a busy machine say nothing
        bounds = {case.name: right - 4 * error for case, (right, error, _) in zip(tried, found, strict=True)}
        inside = max(bound for name, bound in bounds.items() if name.startswith("RRRR"))
        text = "the time tells x in S from x outside S no better than guessing does"
        result.append(finding("time", text, inside < GUESSING, best_lower_bound=inside, limit=GUESSING))
        worst = max(bounds.values())
        text = "and tells no two groups of any mechanism apart in more than 55 % of the calls"
        result.append(finding("left", text, worst < LEFT, best_lower_bound=worst, limit=LEFT))
    return result


if __name__ == "__main__":
    sys.exit(main(findings, __doc__))
