"""The public functions that bad arguments are tried on, with good arguments and what each may be."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import adobest_pp as ad
from adobest_pp import diagnostics, likelihood, plots
from adobest_pp.collect import collect_csv
from adobest_pp.likelihood.direct import Direct, direct_of_counts
from adobest_pp.mechanisms import Mechanism, PublishedQuestion, mechanism_from_settings
from adobest_pp.report.answer_sources import poll_of_people, poll_of_responses, simulated_poll
from adobest_pp.samplers.sgld.settings import schedule_from_settings
from adobest_pp.studies import open_study, read_study, study_status
from adobest_pp.studies.frequency_run import plan_of
from validation.bad_inputs import (
    NAMES,
    RESPONSES,
    RRRR,
    SRR,
    SUBSETS,
    Entry,
    Illegal,
    Kind,
    choice,
    either,
    function,
    indices,
    integer,
    labels,
    matrix,
    never,
    numbers,
    of_type,
    optional,
    plain_numbers,
    prior,
    real,
    subset,
)

COUNT = 2**31 - 1
OTHERS: dict[str, Mechanism] = {
    "UnaryEncoding": ad.UnaryEncoding(3, 1.0),
    "LocalHashing": ad.LocalHashing(3, 1.0, 3),
    "HadamardResponse": ad.HadamardResponse(3, 1.0),
    "SetFamily": ad.SetFamily([[0], [1], [2]], [1, 1, 1], 1.0),
    "Channel": ad.Channel([[0.5, 0.4, 0.6], [0.5, 0.6, 0.4]]),
}
UTILITY_CODES = ("nonadaptive", "fisher", "entropy", "tv1", "tv2", "mse", "honest")
UTILITY = either(choice(*UTILITY_CODES[1:]), of_type(ad.Utility))
EPSILON, KAPPA = real(0, 30), real(0, 1)
THETA = numbers(3, 0.0, 1.0)
NAMED_THETA = numbers(3, 0.0, 1.0, NAMES)
SEED = integer(0)
SELECTION = ad.SubsetSelection(3, epsilon=1.0)


def entries() -> list[Entry]:
    """Return all of them."""
    return [*_mechanisms(), *_data(), *_adaptation(), *_samplers(), *_online(), *_diagnostics(), *_plots(), *_files()]


def _entry(
    name: str,
    call: Callable[..., Any],
    good: Mapping[str, Any],
    kinds: Mapping[str, Kind],
    words: Mapping[str, str] | None = None,
) -> Entry:
    def fresh() -> dict[str, Any]:
        return {key: _results()[value.name] if isinstance(value, Made) else value for key, value in good.items()}

    return Entry(name, call, fresh, kinds, words or {})


def _mechanisms() -> list[Entry]:
    k, private = integer(2, 10**6), indices(3)
    budgets = either(real(0, 30, closed_low=True), _three_budgets)
    rng = optional(of_type(np.random.Generator))
    return [
        _entry("SRR", ad.SRR, {"n_categories": 3, "epsilon": 1.0}, {"n_categories": k, "epsilon": EPSILON}),
        _entry(
            "RRRR",
            ad.RRRR,
            {"n_categories": 3, "epsilon": 1.0, "kappa": 0.9},
            {"n_categories": k, "epsilon": EPSILON, "kappa": KAPPA},
        ),
        _entry(
            "RRRR.from_budgets",
            ad.RRRR.from_budgets,
            {"n_categories": 3, "epsilon1": 1.0, "epsilon2": 1.0},
            {"n_categories": k, "epsilon1": real(0, 30, closed_low=True), "epsilon2": budgets},
        ),
        _entry(
            "SubsetSelection",
            ad.SubsetSelection,
            {"n_categories": 8, "epsilon": 1.0, "size": 1},
            {"n_categories": k, "epsilon": EPSILON, "size": optional(integer(1, 7))},
        ),
        _entry(
            "UnaryEncoding",
            ad.UnaryEncoding,
            {"n_categories": 3, "epsilon": 1.0, "kind": "optimized"},
            {"n_categories": k, "epsilon": EPSILON, "kind": choice("optimized", "symmetric")},
        ),
        _entry(
            "LocalHashing",
            ad.LocalHashing,
            {"n_categories": 3, "epsilon": 1.0, "g": 3},
            {"n_categories": k, "epsilon": EPSILON, "g": optional(integer(2, 2**31))},
        ),
        _entry(
            "HadamardResponse",
            ad.HadamardResponse,
            {"n_categories": 3, "epsilon": 1.0},
            {"n_categories": k, "epsilon": EPSILON},
        ),
        _entry(
            "SetFamily",
            ad.SetFamily,
            {"sets": [[0], [1], [2]], "weights": [1, 1, 1], "epsilon": 1.0},
            {"sets": never, "weights": _balanced, "epsilon": EPSILON},
            {"sets": "must"},
        ),
        _entry("Channel", ad.Channel, {"matrix": [[0.6, 0.4], [0.4, 0.6]]}, {"matrix": _private_channel}),
        _entry("SubsetSelection.privatize", _shape_of(SUBSETS.privatize), {"x": 0}, {"x": private}),
        *(
            _entry(f"{name}.privatize", _shape_of(m.privatize), {"x": 0}, {"x": private, "subset": _none})
            for name, m in {"SRR": SRR, **OTHERS}.items()
        ),
        _entry(
            "RRRR.privatize", _shape_of(RRRR.privatize), {"x": 0, "subset": [0]}, {"x": private, "subset": subset(3)}
        ),
        *(_entry(f"{m}.privatize, rng", f, g, {"rng": rng}) for m, f, g in _generators()),
        _entry("RRRR.transition_matrix", RRRR.transition_matrix, {"subset": [0]}, {"subset": subset(3)}),
        _entry("RRRR.exact_weights", RRRR.exact_weights, {"subset": [0]}, {"subset": subset(3)}),
        _entry("RRRR.epsilon2", RRRR.epsilon2, {"size": 1}, {"size": integer(0, 2)}),
        _entry("privacy_loss", ad.privacy_loss, {"matrix": np.full((2, 2), 0.5)}, {"matrix": matrix}),
        _entry(
            "audit",
            ad.audit,
            {"subject": np.full((2, 2), 0.5), "epsilon": 1.0, "rounding": None},
            {
                "subject": either(matrix, of_type(Mechanism)),
                "epsilon": EPSILON,
                "rounding": optional(real(0, 0.1)),
            },
            {"subject": "matrix"},
        ),
        _entry(
            "mechanism_from_settings",
            mechanism_from_settings,
            {"settings": SRR.settings()},
            {"settings": never},
            {"settings": "must"},
        ),
    ]


def _shape_of(privatize: Callable[..., Any]) -> Callable[..., tuple[int, ...]]:
    return lambda **given: np.shape(privatize(**given))


def _balanced(value: Any) -> list[float]:
    """Weights of three sets of one category each: equal, and positive."""
    array = plain_numbers(value, "fiu", None)
    if array.shape != (3,) or not (np.isfinite(array).all() and (array > 0).all()):
        raise Illegal
    if array.max() - array.min() > 1e-9 * array.max():
        raise Illegal
    return [float(number) for number in array]


def _private_channel(value: Any) -> list[list[float]]:
    """Channels in which no answer rules a category out, and whose loss is at most 30."""
    if _columns(value) is not None:
        raise Illegal
    rows = matrix(value)
    for row in rows:
        if any(row) and (min(row) == 0 or max(row) / min(row) > np.exp(30)):
            raise Illegal
    return list(rows)


def _three_budgets(value: Any) -> Any:
    """One budget, or three, from 0 to 30."""
    if (
        getattr(value, "ndim", 0) == 1
        and hasattr(value, "values")
        and list(map(str, getattr(value, "index", ()))) != ["0", "1", "2"]
    ):
        numbers(3, 0.0)(value)  # refuses labels
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise Illegal from None
    if isinstance(value, np.ma.MaskedArray) or array.dtype.kind not in "fiu" or array.shape not in ((), (3,)):
        raise Illegal
    if not ((array >= 0) & (array <= 30)).all():
        raise Illegal
    return array.astype(float).tolist()


def _generators() -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Return ways to privatize of which only the shape counts: without a generator nobody can foresee the answers."""
    return [
        ("SRR", lambda rng: np.shape(SRR.privatize([0] * 5, rng=rng)), {}),
        ("RRRR", lambda rng: np.shape(RRRR.privatize([0] * 5, subset=[0], rng=rng)), {}),
    ]


def _data() -> list[Entry]:
    responses = {"mechanism": RRRR, "answers": [0, 1], "subsets": [[True, False, False]], "subset_index": [0, 0]}
    evidence = RESPONSES.evidence()

    def appended(answers: Any, subset: Any) -> ad.Responses:
        held = ad.Responses(RRRR, NAMES)
        held.append(answers, subset)
        return held

    def sets(answers: Any) -> ad.Responses:
        held = ad.Responses(SUBSETS, NAMES)
        held.append(answers)
        return held

    def stored(name: str) -> Callable[..., ad.Responses]:
        return lambda answers: ad.Responses.from_arrays(OTHERS[name], answers, categories=NAMES)

    return [
        *(
            _entry(f"Responses.from_arrays, {name}", stored(name), {"answers": good}, {"answers": kind})
            for name, good, kind in (
                ("UnaryEncoding", [0, 1, 1], _bits),
                ("LocalHashing", [0, 1], _hashed),
                ("HadamardResponse", [0, 1], indices(4, ndim=1)),
                ("SetFamily", [0, 1], indices(3, ndim=1)),
                ("Channel", [0, 1], indices(2, ndim=1)),
            )
        ),
        _entry(
            "Responses.from_arrays, one subset",
            lambda subsets: ad.Responses.from_arrays(RRRR, [0, 1], subsets, categories=NAMES),
            {"subsets": [0]},
            {"subsets": either(subset(3, NAMES), _masks)},
            {"subsets": "subset"},
        ),
        _entry(
            "intervals.summary",
            ad.intervals.summary,
            {"theta": Made("theta"), "probability": 0.95, "kind": None},
            # Without answers intervals cannot cover.
            {"theta": never, "probability": real(0, 1, closed_high=False), "kind": optional(choice("posterior"))},
        ),
        _entry(
            "intervals.covering_intervals",
            ad.intervals.covering_intervals,
            {"direct": direct_of_counts(np.array([2.0, 1.0, 0.0]), 3, ad.SRR(3, 1.0)), "probability": 0.95},
            {"direct": of_type(Direct), "probability": real(0, 1, closed_high=False)},
        ),
        _entry(
            "intervals.privacy_share",
            ad.intervals.privacy_share,
            {"theta": Made("theta"), "n": 100, "prior": 1.0, "probability": 0.95},
            {
                "theta": never,
                "n": _head_count,
                "prior": prior(3, NAMES),
                "probability": real(0, 1, closed_high=False),
            },
        ),
        _entry("concat", ad.concat, {"responses": [RESPONSES]}, {"responses": never}),
        _entry(
            "Evidence.merge",
            lambda others: evidence.merge(others),
            {"others": RESPONSES.evidence()},
            {"others": of_type(ad.Evidence)},
        ),
        _entry(
            "intervals.shortest_intervals",
            ad.intervals.shortest_intervals,
            {"draws": [[0.5, 0.5]], "probability": 0.95},
            {"draws": _shares, "probability": real(0, 1, closed_high=False)},
        ),
        _entry(
            "Responses",
            ad.Responses,
            {"mechanism": RRRR, "categories": NAMES},
            {"mechanism": of_type(Mechanism), "categories": optional(labels(3))},
        ),
        _entry(
            "Responses.from_arrays",
            ad.Responses.from_arrays,
            {**responses, "categories": NAMES},
            {"subset_index": _two_zeros, "categories": optional(labels(3)), "subsets": _masks},
        ),
        _entry(
            "Responses.append",
            appended,
            {"answers": [0, 1], "subset": [0]},
            {"answers": indices(3, ndim=1), "subset": subset(3, NAMES)},
        ),
        _entry("Responses.append, sets", sets, {"answers": [0, 1]}, {"answers": _pairs}),
        _entry("Responses.find_subset", RESPONSES.find_subset, {"subset": [0]}, {"subset": subset(3, NAMES)}),
        _entry(
            "Responses.from_xarray",
            ad.Responses.from_xarray,
            {"dataset": None},
            {"dataset": never},
            {"dataset": "must"},
        ),
        *(
            _entry(
                f"likelihood.{call.__name__}",
                call,
                {"theta": [0.5, 0.3, 0.2], "evidence": evidence},
                {"theta": THETA, "evidence": of_type(ad.Evidence)},
            )
            for call in (likelihood.log_likelihood, likelihood.gradient)
        ),
        _entry(
            "likelihood.phi_gradient", likelihood.phi_gradient, {"phi": [1, 2, 3], "evidence": evidence}, {"phi": _phi}
        ),
        _entry(
            "likelihood.grid_posterior",
            likelihood.grid_posterior,
            {"responses": RESPONSES, "prior": 1.0, "cells": 10},
            {"responses": of_type(ad.Responses), "prior": prior(3, NAMES), "cells": integer(10, 1000)},
        ),
        _entry(
            "likelihood.maximum_likelihood",
            likelihood.maximum_likelihood,
            {"evidence": evidence, "tolerance": 1e-3, "max_iterations": 10},
            {
                "evidence": of_type(ad.Evidence),
                "tolerance": real(0, np.inf),
                "max_iterations": integer(1, COUNT),
            },
        ),
    ]


def _bits(value: Any) -> Any:
    """Rows of three zeros and ones, by label where there are labels."""
    names = _columns(value)
    if names is not None and sorted(names) != sorted(NAMES):
        raise Illegal
    rows = np.atleast_2d(plain_numbers(value, "biu", NAMES))
    if names is not None:
        rows = rows[:, [names.index(name) for name in NAMES]]
    if rows.ndim != 2 or rows.shape[1] != 3 or not np.isin(rows, (0, 1)).all():
        raise Illegal
    return rows.astype(int)


def _masks(value: Any) -> Any:
    """Two masks of three categories, not of all."""
    array = plain_numbers(value, "b", None)
    if array.shape != (2, 3) or array.all(axis=1).any():
        raise Illegal
    return array


def _columns(value: Any) -> list[str] | None:
    """Return the labels of the columns of a table, if it has any."""
    if isinstance(value, pd.DataFrame):
        return None if list(value.columns) == list(range(value.shape[1])) else list(map(str, value.columns))
    has = isinstance(value, xr.DataArray) and value.ndim == 2 and value.dims[1] in value.coords
    return [str(label) for label in value[value.dims[1]].values] if has else None


def _hashed(value: Any) -> Any:
    """Rows of a seed of 32 bits and a value of three."""
    rows = np.atleast_2d(indices(2**32)(value))
    if rows.ndim != 2 or rows.shape[1] != 2 or (rows[:, 1] > 2).any():
        raise Illegal
    return rows


def _shares(value: Any) -> Any:
    """Draws of shares, at least one."""
    array = plain_numbers(value, "fiu", None)
    if array.ndim != 2 or not len(array) or not ((array >= 0) & (array <= 1)).all():
        raise Illegal
    return array.astype(float)


def _two_zeros(value: Any) -> list[int]:
    listed = indices(1, ndim=1)(value).tolist()
    if listed != [0, 0]:
        raise Illegal
    return listed


def _pairs(value: Any) -> Any:
    """Rows of two increasing categories."""
    array = np.asarray(indices(3)(value), dtype=np.int64)
    rows = np.atleast_2d(array)
    if rows.ndim != 2 or rows.shape[1] != 2 or (np.diff(rows, axis=1) <= 0).any():
        raise Illegal
    return array.tolist()


def _phi(value: Any) -> list[float]:
    listed = numbers(3, 0.0)(value)
    if sum(listed) < 1e-300:
        raise Illegal
    return listed


def _adaptation() -> list[Entry]:
    theta, good = [0.5, 0.3, 0.2], {"theta": [0.5, 0.3, 0.2], "mechanism": RRRR}
    kinds = {"theta": THETA, "mechanism": of_type(ad.RRRR)}
    return [
        _entry("utility", ad.utility, {"name": "honest", **good}, {"name": UTILITY, **kinds}, {"name": "utility"}),
        _entry(
            "select_subset",
            ad.select_subset,
            {"name": "honest", **good},
            {"name": UTILITY, **kinds},
            {"name": "utility"},
        ),
        _entry(
            "semi_adaptive_subset",
            ad.semi_adaptive_subset,
            {"theta": theta, "alpha": 0.5},
            {"theta": either(THETA, numbers(2, 0.0, 1.0)), "alpha": real(0, 1, closed_low=True)},
        ),
        _entry(
            "optimal_mechanism",
            lambda **given: ad.optimal_mechanism(**given).value,
            {"theta": theta, "epsilon": 1.0, "n_left": 10.0, "criterion": "variance"},
            {
                "theta": either(THETA, numbers(2, 0.0, 1.0)),
                "epsilon": real(1e-3, 30, closed_low=True),
                "n_left": real(1e-6, 1e18, closed_low=True),
                "criterion": choice("variance", "worst"),
                "start": optional(of_type(ad.SetFamily)),
                "gap": real(1e-5, 0.1, closed_low=True),
                "max_sets": optional(integer(2 * len(theta))),
            },
        ),
        _entry(
            "asymptotic_variance",
            ad.asymptotic_variance,
            {"theta": theta, "mechanism": SRR},
            {"theta": THETA, "mechanism": of_type(Mechanism), "subset": _none},
        ),
        _entry(
            "efficiency",
            ad.efficiency,
            {"theta": theta, "mechanism": SRR},
            {"theta": THETA, "mechanism": of_type(Mechanism), "subset": _none},
        ),
        _entry(
            "plan",
            lambda **given: ad.plan(mechanisms="srr", progressbar=False, **given).table["half_width"].item(),
            {"theta": theta, "people": 1000, "epsilon": 1.0, "prior": 1.0, "simulate": False},
            {
                "people": integer(1, COUNT),
                "epsilon": real(0.01, 30, closed_low=True),
                "prior": either(choice("learned"), prior(3, ("0", "1", "2"))),
            },
        ),
        _entry(
            "design.mechanism_table",
            lambda **given: ad.design.mechanism_table(mechanisms="srr", **given)["efficiency"].item(),
            {"n_categories": 3, "epsilon": 1.0, "theta": theta},
            {"epsilon": real(0.01, 30, closed_low=True), "theta": optional(THETA)},
            {"epsilon": "epsilon"},
        ),
        _entry(
            "design.efficiency_table",
            lambda **given: ad.design.efficiency_table(mechanisms="srr", **given)["efficiency"].values.tolist(),
            {"n_categories": 3, "epsilons": [1.0], "theta": theta},
            {"theta": optional(THETA)},
        ),
        _entry("Utility", ad.Utility, {"name": "a", "reference": "b", "function": len}, {"function": function}),
        _entry(
            "a utility of one's own",
            lambda returned: ad.utility(theta, RRRR, ad.Utility("mine", "", lambda theta, c: returned)),
            {"returned": [1.0, 2.0, 3.0]},
            {"returned": _values},
            {"returned": "utility"},
        ),
    ]


def _values(value: Any) -> list[float]:
    listed = indices_or_numbers(value)
    if len(listed) != 3 or not all(number < np.inf for number in listed):
        raise Illegal
    return listed


def indices_or_numbers(value: Any) -> list[float]:
    """Return a vector of numbers of any sign."""
    if isinstance(value, np.ma.MaskedArray | str | bytes | bytearray | dict | set | frozenset):
        raise Illegal
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise Illegal from None
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise Illegal
    return [float(number) for number in array]


def _samplers() -> list[Entry]:
    sizes = {"draws": 4, "tune": 2, "chains": 2, "random_seed": 1}
    small = integer(1, 10_000)  # no hostile value lies between this and what is refused
    kinds = {
        "draws": small,
        "tune": integer(0, 10_000),
        "chains": small,
        "random_seed": optional(integer(0, 2**63 - 1)),
    }
    options = {"batch_size": 2, "step_size": 0.01, "updates_per_draw": 1, "diffusion": "reflected"}
    positive = real(0, np.inf, closed_high=False)

    def sgld(**settings: Any) -> Any:
        return ad.sample(RESPONSES, "sgld", **sizes, progressbar=False, **options | settings)

    def steps(returned: Any) -> Any:
        return sgld(step_size=None, schedule=lambda update, n: returned)

    return [
        _entry(
            "sample",
            lambda **given: ad.sample(progressbar=False, **given),
            {"responses": RESPONSES, "sampler": "gibbs", "prior": 1.0, **sizes},
            {
                "responses": of_type(ad.Responses),
                "sampler": choice("gibbs", "sgld", "nuts"),
                "prior": prior(3, NAMES),
                **kinds,
            },
        ),
        _entry(
            "sample, sgld",
            sgld,
            options,
            {
                "batch_size": optional(integer(1)),
                "step_size": optional(positive),
                "updates_per_draw": small,
                "diffusion": choice("reflected", "preconditioned"),
            },
        ),
        _entry(
            "sample, schedule",
            lambda schedule: sgld(step_size=None, schedule=schedule),
            {"schedule": None},
            {"schedule": _none},
        ),
        _entry("a schedule of one's own", steps, {"returned": 0.1}, {"returned": _step}, {"returned": "schedule"}),
        _entry(
            "extend",
            lambda **given: ad.extend(progressbar=False, **given),
            {"tree": Made("tree"), "draws": 5},
            {"tree": never, "draws": small},
        ),
        _entry("recorded_arguments", ad.recorded_arguments, {"attributes": {}}, {"attributes": never}),
        _entry("ConstantSteps", ad.ConstantSteps, {"step_size": 0.1}, {"step_size": positive}),
        _entry("PaperSteps", ad.PaperSteps, {"scale": 0.1}, {"scale": positive}),
        _entry(
            "DecayingSteps",
            ad.DecayingSteps,
            {"scale": 0.1, "power": 0.5},
            {"scale": positive, "power": real(0, 1, closed_low=True)},
        ),
        _entry(
            "schedule_from_settings",
            schedule_from_settings,
            {"settings": {}},
            {"settings": never},
            {"settings": "schedule"},
        ),
        _entry(
            "frequency_model",
            lambda **given: len(ad.frequency_model(**given).free_RVs),
            {"responses": RESPONSES, "prior": 1.0, "surrogate": False},
            {"responses": of_type(ad.Responses), "prior": prior(3, NAMES), "surrogate": of_type(bool)},
        ),
    ]


def _none(value: Any) -> None:
    if value is not None:
        raise Illegal


def _step(value: Any) -> float:
    """One positive number for all updates."""
    array = np.asarray(prior(1)(value))
    return float(array.ravel()[0])


def _online() -> list[Entry]:
    settings = {"prior": 1.0, "updates": 2, "batch_size": 5, "step_size": None, "adapt_every": 1, "sampler": "sgld"}
    kinds: dict[str, Kind] = {
        "prior": prior(3, NAMES),
        "updates": integer(1, 10_000),
        "batch_size": integer(1, COUNT),
        "step_size": optional(real(0, np.inf, closed_high=False)),
        "adapt_every": integer(1, COUNT),
        "sampler": choice("sgld", "exact"),
        "categories": optional(labels(3)),
        "random_seed": optional(SEED),
    }
    common = {"mechanism": RRRR, **settings, "categories": NAMES, "random_seed": 1}
    simulated = {"theta": [0.5, 0.3, 0.2], "utility": "honest", "n_people": 5, "final_updates": 2, "path_length": 3}

    def made(policy: Any, categories: Any = NAMES, random_seed: Any = 1, **settings: Any) -> ad.Collection:
        return ad.Collection.create(policy=policy(**settings), categories=categories, random_seed=random_seed)

    def recorded(answer: Any, question: Any) -> ad.Responses:
        collection = made(ad.Rounds, mechanism=SELECTION, n_people=600)
        collection.record(answer, question)
        return collection.responses

    def recorded_plainly(answer: Any) -> ad.Responses:
        collection = made(ad.SameQuestion, mechanism=SRR)
        collection.record(answer)
        return collection.responses

    def simulated_adaptively(theta: Any, **given: Any) -> ad.OnlineRun:
        policy = {name: given.pop(name) for name in list(given) if name in ad.AdaptiveSubset.__dataclass_fields__}
        return ad.simulate_adaptive(theta, ad.AdaptiveSubset(**policy), **given)

    def asked(people: Any) -> ad.OnlineRun:
        return ad.simulate_adaptive(None, ad.AdaptiveSubset(RRRR), people=people, final_updates=2, random_seed=1)

    return [
        _entry(
            "AdaptiveSubset",
            lambda **given: made(ad.AdaptiveSubset, **given).next_question().subset,
            {**common, "utility": "honest", "alpha": None},
            {
                **kinds,
                "mechanism": of_type(ad.RRRR),
                "utility": either(UTILITY, choice("nonadaptive")),
                "alpha": _none,
            },
        ),
        _entry(
            "simulate_adaptive",
            simulated_adaptively,
            {**common, **simulated, "alpha": None},
            {
                **kinds,
                "mechanism": of_type(ad.RRRR),
                "theta": NAMED_THETA,
                "prior": prior(3, NAMES),
                "utility": either(UTILITY, choice("nonadaptive")),
                "alpha": _none,
                "n_people": optional(integer(1, 10_000)),
                "final_updates": integer(2, 10_000),
                "path_length": integer(1, COUNT),
            },
        ),
        _entry(
            "simulate_rounds",
            lambda **given: ad.simulate_rounds([0.5, 0.3, 0.2], **given),
            {"mechanism": SELECTION, "n_people": 30, "rounds": 1, "prior": 1.0, "random_seed": 1},
            {
                "mechanism": of_type(ad.SubsetSelection),
                "rounds": optional(integer(1, 30)),
                "prior": prior(3),
                "random_seed": optional(SEED),
            },
        ),
        _entry(
            "Rounds",
            lambda **given: made(ad.Rounds, **given).responses,
            {
                "mechanism": SELECTION,
                "n_people": 600,
                "rounds": None,
                "prior": 1.0,
                "categories": NAMES,
                "random_seed": 1,
            },
            {
                "mechanism": of_type(ad.SubsetSelection),
                "n_people": integer(1, COUNT),
                "rounds": optional(integer(1, 600)),
                "prior": prior(3, NAMES),
                "categories": optional(labels(3)),
                "random_seed": optional(integer(0, 2**63 - 1)),
            },
        ),
        _entry(
            "Collection, in rounds",
            recorded,
            {"answer": [[0]], "question": 0},
            {"question": optional(integer(0, 0))},
        ),
        _entry(
            "read_question",
            ad.read_question,
            {"text": PublishedQuestion(0, SELECTION, NAMES).to_json(), "epsilon": 1.0},
            {"text": never, "epsilon": real(1, 30, closed_low=True)},
        ),
        _entry("simulate, people", asked, {"people": [0, 1]}, {"people": _people}),
        _entry(
            "simulated_poll",
            lambda **given: simulated_poll(**given).responses,
            {
                "n_people": 5,
                "epsilon": 1.0,
                "mechanism": "rrrr",
                "kappa": None,
                "utility": None,
                "random_seed": 1,
            },
            {
                "n_people": integer(1, 10_000),
                "epsilon": EPSILON,
                "mechanism": optional(choice("rrrr", "RRRR")),
                "kappa": optional(KAPPA),
                "utility": optional(choice(*UTILITY_CODES)),
                "random_seed": optional(SEED),
            },
        ),
        _entry(
            "SameQuestion",
            lambda **given: made(ad.SameQuestion, **given).responses,
            {"mechanism": SELECTION, "categories": NAMES, "random_seed": 1},
            {
                "mechanism": _plain_mechanism,
                "categories": optional(labels(3)),
                "random_seed": optional(integer(0, 2**63 - 1)),
            },
        ),
        _entry(
            "Collection",
            recorded_plainly,
            {"answer": [0, 1]},
            {"answer": indices(3, ndim=1)},
            {"answer": "answers"},
        ),
    ]


def _plain_mechanism(value: Any) -> Mechanism:
    if not isinstance(value, Mechanism) or value.publishes_subset:
        raise Illegal
    return value


def _people(value: Any) -> list[int]:
    array = indices(3, ndim=1, least=1)(value)
    if array.ndim != 1:
        raise Illegal
    return list(array.tolist())


class Made(NamedTuple):
    """One of `_results`, which take a while to make: not before they are needed."""

    name: str


STEPS = {"step_sizes": [0.01, 0.1], "batch_sizes": [2], "budget": 2000, "draws": 10, "chains": 2, "random_seed": 1}


@cache
def _results() -> dict[str, Any]:
    """Return draws, runs, and small results of every diagnostic, which figures are drawn from."""
    trees = {name: ad.sample(RESPONSES, "gibbs", draws=40, tune=10, random_seed=i) for i, name in enumerate("ab")}
    run = ad.simulate_adaptive(
        [0.5, 0.3, 0.2], ad.AdaptiveSubset(RRRR), n_people=20, final_updates=2, categories=NAMES, random_seed=1
    )
    posteriors = {"a": {7: trees["a"]}}
    return {
        "trees": trees,
        "tree": trees["a"],
        "theta": trees["a"]["posterior"]["theta"],
        "posteriors": posteriors,
        "runs": {"a": run},
        "compare": (comparison := diagnostics.compare(trees, "a", resamples=19)),
        "row": comparison.sel(sampler="b"),
        "contraction": diagnostics.contraction(posteriors, [0.5, 0.3, 0.2]),
        "best_subset": diagnostics.best_subset_frequency({"a": run}, [0.5, 0.3, 0.2]),
        "step_sizes": diagnostics.step_size_study(RESPONSES, trees["a"], progressbar=False, **STEPS),
        "long": (long := ad.sample(RESPONSES, "gibbs", draws=1000, random_seed=3, progressbar=False)),
        "explanation": diagnostics.explain(trees["a"], RESPONSES, long, progressbar=False),
        "frontier": xr.Dataset(
            {name: (("sampler", "length"), [[1.0]]) for name in ("distance", "cpu_seconds", "gradients")},
            {"sampler": ["a"], "length": [1]},
        ),
    }


def _diagnostics() -> list[Entry]:
    truth = [0.5, 0.3, 0.2]

    def calibrated(**given: Any) -> Any:
        return diagnostics.calibration(progressbar=False, **given)

    def fit(responses: ad.Responses, seed: int) -> Any:
        return ad.sample(responses, "gibbs", draws=10, tune=0, chains=2, random_seed=seed, progressbar=False)

    def studied(**given: Any) -> Any:
        return diagnostics.step_size_study(progressbar=False, **STEPS | given)

    return [
        _entry("references.load", ad.references.load, {}, {"name": choice(*ad.references.names())}),
        _entry(
            "compare",
            diagnostics.compare,
            {
                "draws": Made("trees"),
                "reference": "a",
                "truth": truth,
                "max_points": 500,
                "resamples": 9,
                "random_seed": 0,
            },
            {
                "draws": never,
                "reference": choice("a", "b"),
                "truth": optional(NAMED_THETA),
                "resamples": integer(1, 10_000),
                "random_seed": SEED,
            },
        ),
        _entry(
            "contraction",
            diagnostics.contraction,
            {"posteriors": Made("posteriors"), "truth": truth, "probability": 0.9, "fit_from": 1},
            {"posteriors": never, "truth": NAMED_THETA, "probability": _between, "fit_from": integer(1)},
        ),
        _entry(
            "contraction, one label",
            lambda items: diagnostics.contraction({"a": items}, truth),
            {"items": None},
            {"items": never},
            {"items": "posteriors"},
        ),
        _entry(
            "checkpoints",
            diagnostics.checkpoints,
            {"responses": RESPONSES, "ns": [3]},
            {"responses": of_type(ad.Responses), "ns": _sizes},
        ),
        _entry(
            "goodness_of_fit",
            diagnostics.goodness_of_fit,
            {"tree": Made("tree"), "responses": None},
            {"tree": never, "responses": optional(of_type(ad.Responses))},
        ),
        _entry(
            "explain",
            lambda **given: diagnostics.explain(progressbar=False, **given),
            {"draws": Made("tree"), "responses": RESPONSES, "reference": Made("long"), "random_seed": 0},
            {"draws": never, "responses": of_type(ad.Responses), "reference": optional(never), "random_seed": SEED},
        ),
        _entry(
            "explanation_in_words",
            diagnostics.explanation_in_words,
            {"explanation": Made("explanation"), "name": "It"},
            {"explanation": never},
        ),
        _entry("verdict_in_words", diagnostics.verdict_in_words, {"row": Made("row")}, {"row": never}),
        _entry(
            "best_subset_frequency",
            diagnostics.best_subset_frequency,
            {"runs": Made("runs"), "truth": truth, "window": 5},
            {"runs": never, "truth": NAMED_THETA, "window": optional(integer(1, 20))},
        ),
        _entry(
            "calibration",
            calibrated,
            {
                "fit": fit,
                "mechanism": SRR,
                "prior": 1.0,
                "n_people": 5,
                "replications": 2,
                "n_ranked": 3,
                "random_seed": 1,
            },
            {
                "mechanism": of_type(Mechanism),
                "prior": prior(3, ("0", "1", "2")),
                "n_people": integer(0, 10_000),
                "replications": integer(2, 100),
                "n_ranked": integer(1, 20),
                "levels": _levels,
                "budget": optional(real(0, np.inf)),
            },
        ),
        _entry(
            "step_size_study",
            studied,
            {"responses": RESPONSES, "reference": Made("tree"), "prior": 1.0},
            {
                "responses": of_type(ad.Responses),
                "reference": never,
                "prior": optional(prior(3, NAMES)),
                "step_sizes": optional(_steps),
                "batch_sizes": optional(_each_once(_listed(integer(1, 7)))),
                "diffusions": never,
                "budget": never,
            },
        ),
    ]


def _head_count(value: Any) -> float:
    """Take a number of people, or an array of it without dimensions."""
    if isinstance(value, np.ma.MaskedArray | bool) or not isinstance(value, int | float | np.number | np.ndarray):
        raise Illegal
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim or not 0 <= array < np.inf:
        raise Illegal
    return float(array)


def _levels(value: Any) -> list[float]:
    listed = indices_or_numbers(value)
    if not listed or not all(0 < number < 1 for number in listed):
        raise Illegal
    return listed


def _steps(value: Any) -> list[float]:
    listed = indices_or_numbers(value)
    if not listed or len(set(listed)) < len(listed) or not all(0 < number < np.inf for number in listed):
        raise Illegal
    return listed


def _between(value: Any) -> float:
    if not isinstance(value, float) or not 0 < value < 1:
        raise Illegal
    return float(value)


def _sizes(value: Any) -> list[int]:
    """Any numbers of responses from 1 to 7, however they are listed."""
    if isinstance(value, set | frozenset):
        value = list(value)
    array = indices(8, ndim=1)(value.values if hasattr(value, "index") and hasattr(value, "values") else value)
    if array.ndim != 1 or (array < 1).any():
        raise Illegal
    return list(array.tolist())


def _listed(kind: Kind) -> Kind:
    """Sequences of at least one value of a kind."""

    def plain(value: Any) -> list[Any]:
        if isinstance(value, str | bytes | bytearray) or not isinstance(value, list | tuple | range | np.ndarray):
            raise Illegal
        if np.ndim(np.asarray(value, dtype=object)) != 1 or not len(value):
            raise Illegal
        return [kind(each) for each in value]

    return plain


def _each_once(kind: Kind) -> Kind:
    """Sequences of a kind without a value that comes twice."""

    def plain(value: Any) -> list[Any]:
        found = kind(value)
        if len(set(found)) < len(found):
            raise Illegal
        return list(found)

    return plain


def _ratios(value: Any) -> list[float]:
    array = np.asarray(indices_or_numbers(value))
    if not array.size or not ((array >= 1) & np.isfinite(array)).all():
        raise Illegal
    return list(array.tolist())


def _plots() -> list[Entry]:

    def closed(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(**given: Any) -> None:
            import matplotlib.pyplot as plt

            try:
                draw(**given)
            finally:
                plt.close("all")

        return drawn

    belief = {"answer": 0, "prior": [0.5, 0.3, 0.2], "mechanism": SRR}
    trees = Made("trees")
    chosen = {"draws": trees, "categories": ["red"]}
    return [
        _entry(
            "plots.plot_channel",
            closed(plots.plot_channel),
            {"mechanism": SRR},
            {"mechanism": either(matrix, of_type(Mechanism)), "categories": optional(labels(3)), "ax": _none},
            {"mechanism": "must"},
        ),
        _entry(
            "plots.plot_belief",
            closed(plots.plot_belief),
            belief,
            {"answer": integer(0, 2), "prior": optional(THETA), "categories": optional(labels(3)), "ax": _none},
        ),
        _entry(
            "plots.plot_simplex",
            closed(plots.plot_simplex),
            {"draws": trees, "truth": [0.5, 0.3, 0.2]},
            {"draws": never, "truth": optional(NAMED_THETA), "axes": _none},
        ),
        _entry(
            "plots.plot_comparison",
            closed(plots.plot_comparison),
            {"dataset": Made("compare")},
            {"dataset": never, "axes": _none},
        ),
        _entry("plots.plot_calibration", closed(plots.plot_calibration), {"dataset": None}, {"dataset": never}),
        _entry(
            "plots.plot_contraction",
            closed(plots.plot_contraction),
            {"result": Made("contraction")},
            {"result": never, "axes": _none},
        ),
        _entry(
            "plots.plot_best_subset",
            closed(plots.plot_best_subset),
            {"result": Made("best_subset")},
            {"result": never, "axes": _none},
        ),
        _entry(
            "plots.plot_step_sizes",
            closed(plots.plot_step_sizes),
            {"study": Made("step_sizes")},
            {"study": never, "axes": _none},
        ),
        _entry(
            "plots.plot_frontier",
            closed(plots.plot_frontier),
            {"points": Made("frontier")},
            {"points": never, "axes": _none},
        ),
        _entry(
            "plots.plot_estimates",
            closed(plots.plot_estimates),
            {"draws": trees, "truth": None, "categories": None},
            {"draws": never, "truth": optional(NAMED_THETA), "categories": _none},
        ),
        _entry("plots.plot_plan", closed(plots.plot_plan), {"plan": None}, {"plan": never}),
        _entry(
            "plots.plot_efficiency",
            closed(plots.plot_efficiency),
            {"efficiencies": None},
            {"efficiencies": never},
        ),
        _entry("plots.plot_traces", closed(plots.plot_traces), chosen, {"draws": never, "categories": never}),
        _entry("plots.plot_ranks", closed(plots.plot_ranks), chosen, {"draws": never, "categories": never}),
        _entry(
            "plots.plot_honest_response",
            closed(plots.plot_honest_response),
            {"epsilons": [1.0], "n_categories": 3, "kappa": 0.9, "sizes": [1], "ratios": [1.0, 2.0]},
            {
                "epsilons": _listed(EPSILON),
                "n_categories": integer(2, 10**6),
                "sizes": _listed(integer(0, 2)),
                "ratios": optional(_ratios),
                "kappa": KAPPA,
            },
            {"epsilons": "epsilon"},
        ),
        _entry("plots.plot_study", closed(plots.plot_study), {"dataset": None, "measure": "tv"}, {"dataset": never}),
    ]


def _merged(others: Any) -> ad.Evidence:
    return RESPONSES.evidence().merge(others)


def _files() -> list[Entry]:
    cell = {"n_categories": 3, "epsilon": 1.0, "kappa": 0.9, "rho": 1.0, "people": 10}
    numbers_of_cell = {
        "n_categories": integer(2, 10**6),
        "epsilon": EPSILON,
        "kappa": KAPPA,
        "rho": real(0, np.inf, closed_high=False),
        "people": integer(1, COUNT),
    }
    csv = {"path": "no such file", "column": "vote", "epsilon": 1.0}
    paths: list[tuple[str, Callable[..., Any], str]] = [
        ("Responses.from_netcdf", ad.Responses.from_netcdf, "path"),
        ("Collection.open", ad.Collection.open, "path"),
        ("read_tree", ad.answers.read_tree, "path"),
        ("poll_of_responses", poll_of_responses, "path"),
        ("open_study", open_study, "must be a"),
        ("study_status", study_status, "must be a"),
        ("read_study", read_study, "path"),
    ]
    return [
        *(_entry(name, call, {"path": "none"}, {"path": never}, {"path": word}) for name, call, word in paths),
        _entry("collect_csv", collect_csv, csv, {"path": never}),
        _entry("gather", ad.gather, {"paths": "no such file"}, {"paths": never}),
        _entry("Gathered.open", ad.answers.Gathered.open, {"store": "no such folder"}, {"store": never}),
        _entry("poll_of_people", poll_of_people, csv, {"path": never}),
        _entry("plan_of", plan_of, {**cell, "mechanism": "rrrr", "utility": "honest"}, numbers_of_cell),
    ]
