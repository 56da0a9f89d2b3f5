"""The public functions, each with good arguments, and the kinds of their arguments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from hypothesis import strategies as st

import adobest_pp as ad
from adobest_pp import collect, diagnostics, likelihood, plots
from adobest_pp.likelihood.without_prior import Direct, direct_of_counts
from adobest_pp.mechanisms import Mechanism, PublishedQuestion, mechanism_from_settings
from adobest_pp.report import grade_samplers, write_report
from adobest_pp.report.findings import poll_of_people, poll_of_responses, simulated_poll
from adobest_pp.samplers.sgld.settings import schedule_from_settings
from adobest_pp.studies import open_study, plot_study, read_study, study_status
from adobest_pp.studies.frequency_run import cell_settings
from tests.contracts.kinds import (
    NAMES,
    RESPONSES,
    RRRR,
    SELECTION,
    SRR,
    Kind,
    anything,
    but,
    channel,
    choice,
    flag,
    indices,
    instance,
    integer,
    labels,
    never,
    no_matter,
    not_numbers,
    only_none,
    optional,
    real,
    shares,
    subset,
    weights,
)

THETA, EVIDENCE = [0.5, 0.3, 0.2], RESPONSES.evidence()
COUNT = 2**31 - 1
OTHERS: dict[str, Mechanism] = {
    "UnaryEncoding": ad.UnaryEncoding(3, 1.0),
    "LocalHashing": ad.LocalHashing(3, 1.0, 3),
    "HadamardResponse": ad.HadamardResponse(3, 1.0),
    "ProjectiveGeometryResponse": ad.ProjectiveGeometryResponse(3, 1.0, 3),
    "CountMeanSketch": ad.CountMeanSketch(3, 1.0, 2, 3),
    "SetFamily": ad.SetFamily([[0], [1], [2]], [1, 1, 1], 1.0),
    "Channel": ad.Channel([[0.5, 0.4, 0.6], [0.5, 0.6, 0.4]]),
}
WAVES = ad.Responses.from_arrays(ad.Memoized(SRR, SRR, 2), [[0, 1], [2, 2], [1, 0]])
PLANNED = ad.SubsetSelection(3, epsilon=1.0)
UTILITY = choice("nonadaptive", "fisher", "entropy", "tv1", "tv2", "mse", "honest")
# Not 1/2 or what is equal to another fraction: that is refused by another name.
FRACTION = Kind(but("real", "text") | st.sampled_from([0, 1, 0.0, 1.0, -0.5, 1.5, "0", "1/0", "-1/3", "7/6", "x", ""]))
POSITIVE = real(0, closed_high=False)
SEED = optional(integer(0))
# What a function of one's own may not return: as a utility, and as a step size.
NO_VALUES = Kind(but("vector") | not_numbers | st.sampled_from([[1.0], [1.0, np.inf, 0.0], [1.0, np.nan, 0.0]]))
NO_STEPS = Kind(but("vector", "integer", "real") | st.sampled_from([0, -0.5, [0.1, 0.1, 0.1], [-0.1]]))

# What an argument of this name is, in every function that does not say otherwise.
KINDS: dict[str, Kind] = {
    "adapt_every": integer(1, COUNT),
    "alpha": real(0, 1, closed_low=True),
    "axes": only_none,
    "ax": only_none,
    "batch_size": integer(1, COUNT),
    "categories": optional(labels()),
    "chains": integer(1, COUNT),
    "draws": integer(1, COUNT),
    "epsilon": real(0, 30),
    "evidence": instance(ad.Evidence),
    "final_updates": integer(2, COUNT),
    "kappa": real(0, 1),
    "matrix": channel(),
    "mechanism": instance(Mechanism),
    "n_categories": integer(2, 10**6),
    "n_people": integer(1, COUNT),
    "path": never,
    "path_length": integer(1, COUNT),
    "people": integer(1, COUNT),
    "prior": weights(),
    "probability": real(0, 1, closed_high=False),
    "random_seed": SEED,
    "responses": instance(ad.Responses),
    "scale": POSITIVE,
    "step_size": optional(POSITIVE),
    "subset": subset(),
    "theta": shares(),
    "truth": shares(labels=NAMES),
    "tune": integer(0, COUNT),
    "updates": integer(1, COUNT),
    "utility": UTILITY,
    "x": indices(3),
}


class Made(NamedTuple):
    """One of `results`, which take seconds to make: not before they are needed."""

    name: str


@dataclass(frozen=True)
class Function:
    """A public function: good arguments, the kinds of some, and what a sentence calls an argument, if not its name."""

    name: str
    call: Callable[..., Any]
    good: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    words: Mapping[str, str] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Return good arguments."""
        return {key: results()[one.name] if isinstance(one, Made) else one for key, one in self.good.items()}


def function(name: str, call: Callable[..., Any], good: Mapping[str, Any], /, **kinds: Kind | tuple[Kind, str]) -> Any:
    """Describe a function. Arguments in `good` that have a kind by their name, and those of `kinds`, are tried."""
    words = {argument: kind[1] for argument, kind in kinds.items() if isinstance(kind, tuple)}
    own = {argument: kind[0] if isinstance(kind, tuple) else kind for argument, kind in kinds.items()}
    return Function(name, call, good, {key: KINDS[key] for key in good if key in KINDS} | own, words)


@cache
def results() -> dict[str, Any]:
    """Return draws, runs, and small results of every diagnostic, which figures are drawn from."""
    trees = {name: ad.sample(RESPONSES, "gibbs", draws=40, tune=10, random_seed=i) for i, name in enumerate("ab")}
    policy = ad.AdaptiveSubset(RRRR)
    run = ad.simulate_adaptive(THETA, policy, n_people=20, final_updates=2, categories=NAMES, random_seed=1)
    long = ad.sample(RESPONSES, "gibbs", draws=1000, random_seed=3, progressbar=False)
    posteriors = {"a": {7: trees["a"]}}
    comparison = diagnostics.compare(trees, "a", resamples=19)
    return {
        "trees": trees,
        "tree": trees["a"],
        "estimate": ad.estimate(RESPONSES),
        "theta": trees["a"]["posterior"]["theta"],
        "posteriors": posteriors,
        "runs": {"a": run},
        "compare": comparison,
        "row": comparison.sel(sampler="b"),
        "contraction": diagnostics.contraction(posteriors, THETA),
        "best_subset": diagnostics.best_subset_frequency({"a": run}, THETA),
        "long": long,
        "explanation": diagnostics.explain(trees["a"], RESPONSES, long, progressbar=False),
        "frontier": xr.Dataset(
            {name: (("sampler", "length"), [[1.0]]) for name in ("distance", "cpu_seconds", "gradients")},
            {"sampler": ["a"], "length": [1]},
        ),
    }


def _shape_of(privatize: Callable[..., Any]) -> Callable[..., tuple[int, ...]]:
    """Privatize without a generator: nobody can foresee more than the shape."""
    return lambda **given: np.shape(privatize(**given))


def _appended(answers: Any, subset: Any) -> ad.Responses:
    held = ad.Responses(RRRR, NAMES)
    held.append(answers, subset)
    return held


def _recorded(policy: Any, answer: Any, question: Any = None) -> ad.Responses:
    collection = ad.Collection.create(policy=policy, categories=NAMES, random_seed=1)
    collection.record(answer, question)
    return collection.responses


def _sgld(**settings: Any) -> Any:
    return ad.sample(RESPONSES, "sgld", draws=4, tune=2, chains=2, random_seed=1, progressbar=False, **settings)


def _quiet(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: call(progressbar=False, **given)


def _closed(draw: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(**given: Any) -> None:
        try:
            draw(**given)
        finally:
            plt.close("all")

    return drawn


def _fit(responses: ad.Responses, seed: int) -> Any:
    return ad.sample(responses, "gibbs", draws=10, tune=0, chains=2, random_seed=seed, progressbar=False)


# fmt: off
RNG = optional(instance(np.random.Generator))
K_EPSILON = {"n_categories": 3, "epsilon": 1.0}
MECHANISMS = [
    function("SRR", ad.SRR, K_EPSILON),
    function("RRRR", ad.RRRR, {**K_EPSILON, "kappa": 0.5}),
    function("RRRR.from_budgets", ad.RRRR.from_budgets, {"n_categories": 3, "epsilon1": 1.0, "epsilon2": [0.0, 1, 1]},
             epsilon1=real(0, 30, closed_low=True), epsilon2=no_matter),
    function("SubsetSelection", ad.SubsetSelection, {"n_categories": 8, "epsilon": 1.0, "size": 1},
             size=optional(integer(1, 7))),
    function("UnaryEncoding", ad.UnaryEncoding, {**K_EPSILON, "kind": "optimized"},
             kind=choice("optimized", "symmetric")),
    function("LocalHashing", ad.LocalHashing, {**K_EPSILON, "g": 3}, g=optional(integer(2, 2**31))),
    function("HadamardResponse", ad.HadamardResponse, K_EPSILON),
    function("ProjectiveGeometryResponse", ad.ProjectiveGeometryResponse, {**K_EPSILON, "order": 3},
             order=optional(integer(2, 2**20))),
    function("CountMeanSketch", ad.CountMeanSketch, {**K_EPSILON, "n_hashes": 2, "n_values": 3},
             n_hashes=optional(integer(1, 2**20)), n_values=optional(integer(2, 2**16))),
    function("SetFamily", ad.SetFamily, {"sets": [[0], [1], [2]], "weights": [1, 1, 1], "epsilon": 1.0},
             sets=(never, "must"), weights=no_matter),
    function("Channel", ad.Channel, {"matrix": [[0.6, 0.4], [0.4, 0.6]]}),
    function("Warner", ad.Warner, {"p": "2/3"}, p=FRACTION),
    function("Crosswise", ad.Crosswise, {"p": "1/4"}, p=FRACTION),
    function("ForcedResponse", ad.ForcedResponse, {"forced_yes": "1/6", "forced_no": "1/6"}, forced_yes=FRACTION,
             forced_no=FRACTION),
    function("UnrelatedQuestion", ad.UnrelatedQuestion, {"p": "1/2", "share": "1/4"}, p=FRACTION, share=FRACTION),
    function("Memoized", ad.Memoized, {"permanent": SRR, "instantaneous": SRR, "n_waves": 2},
             permanent=instance(Mechanism), instantaneous=instance(Mechanism), n_waves=integer(1, 60)),
    function("Memoized.from_budgets", ad.Memoized.from_budgets,
             {"n_categories": 3, "epsilon": 2.0, "wave_epsilon": 1.0, "n_waves": 2}, n_categories=integer(2, 547),
             epsilon=real(1.0, 30), wave_epsilon=real(0, 2.0, closed_high=False), n_waves=integer(1, 60)),
    function("Ticks", ad.Ticks, {"n_options": 4, "epsilon": 1.0, "n_asked": 2}, n_options=integer(1, 1000),
             n_asked=optional(integer(1, 4))),
    function("Ticks.privatize", _shape_of(ad.Ticks(3, 1.0).privatize), {"x": [0, 1, 1]}, x=Kind(but("vector", "set"))),
    function("Kuk", ad.Kuk, {"red_yes": "4/5", "red_no": "1/5", "draws": 2}, red_yes=FRACTION, red_no=FRACTION,
             draws=integer(1, 100)),
    function("RRRR.privatize", _shape_of(RRRR.privatize), {"x": 0, "subset": [0]}, rng=RNG),
    function("SubsetSelection.privatize", _shape_of(SELECTION.privatize), {"x": 0}),
    *(function(f"{name}.privatize", _shape_of(m.privatize), {"x": 0}, subset=only_none, rng=RNG)
      for name, m in {"SRR": SRR, **OTHERS}.items()),
    function("RRRR.transition_matrix", RRRR.transition_matrix, {"subset": [0]}),
    function("RRRR.exact_weights", RRRR.exact_weights, {"subset": [0]}),
    function("RRRR.epsilon2", RRRR.epsilon2, {"size": 1}, size=integer(0, 2)),
    function("privacy_loss", ad.privacy_loss, {"matrix": np.full((2, 2), 0.5)}),
    function("audit", ad.audit, {"subject": np.full((2, 2), 0.5), "epsilon": 1.0, "rounding": 0.0625},
             subject=(channel(), "matrix"), rounding=optional(real(0, 0.1))),
    function("mechanism_from_settings", mechanism_from_settings, {"settings": SRR.settings()},
             settings=(never, "must")),
    function("read_question", ad.read_question,
             {"text": PublishedQuestion(0, PLANNED, NAMES).to_json(), "epsilon": 1.0}, text=never),
]
DATA = [
    *(function(f"Responses.from_arrays, {name}", partial(ad.Responses.from_arrays, OTHERS[name]), {"answers": good},
               answers=kind, categories=optional(labels()))
      for name, good, kind in (("UnaryEncoding", [0, 1, 1], no_matter), ("LocalHashing", [0, 1], no_matter),
                               ("HadamardResponse", [0, 1], indices(4)), ("CountMeanSketch", [0, 1], indices(6)),
                               ("ProjectiveGeometryResponse", [0, 1], indices(4)), ("SetFamily", [0, 1], indices(3)),
                               ("Channel", [0, 1], indices(2)))),
    function("Responses", ad.Responses, {"mechanism": RRRR, "categories": NAMES}),
    function("Responses.from_arrays", ad.Responses.from_arrays,
             {"mechanism": RRRR, "answers": [0, 1], "subsets": [[True, False, False]], "subset_index": [0, 0]},
             answers=indices(3), subset_index=indices(1), subsets=no_matter),
    function("Responses.append", _appended, {"answers": [0, 1], "subset": [0]}, answers=indices(3)),
    function("Responses.append, sets", partial(ad.Responses.from_arrays, SELECTION), {"answers": [0, 1]},
             answers=no_matter),
    function("Responses.from_xarray", ad.Responses.from_xarray, {"dataset": None}, dataset=(never, "must")),
    function("Responses.to_netcdf", RESPONSES.to_netcdf, {"path": "no/folder/x.nc", "overwrite": False},
             path=no_matter, overwrite=flag),
    function("Responses.to_parquet", RESPONSES.to_parquet, {"path": "no/folder/x.parquet", "overwrite": False},
             path=no_matter, overwrite=flag),
    function("concat", ad.concat, {"responses": [RESPONSES]}, responses=never, allow_copies=flag),
    function("Evidence.merge", lambda others: EVIDENCE.merge(others), {"others": EVIDENCE},
             others=instance(ad.Evidence)),
    function("intervals.summary", ad.intervals.summary, {"theta": Made("theta"), "probability": 0.5, "kind": None},
             theta=never, kind=optional(choice("posterior"))),
    function("estimate", ad.estimate,
             {"responses": RESPONSES, "groups": None, "weights": None, "margins": None, "ordered": False,
              "probability": 0.5, "random_seed": 1},
             groups=no_matter, weights=no_matter, margins=no_matter, ordered=flag, random_seed=integer(0)),
    function("intervals.change", ad.intervals.change, {"responses": WAVES, "before": 0, "after": 1, "probability": 0.5},
             before=integer(0, 1), after=integer(0, 1)),
    function("intervals.largest", ad.intervals.largest,
             {"theta": Made("tree"), "k": 2, "probability": 0.5, "kind": None}, theta=never,
             k=integer(1, 3), kind=optional(choice("posterior", "covering"))),
    function("intervals.above", ad.intervals.above,
             {"theta": Made("tree"), "threshold": 0.1, "error": 0.5, "rate": "any", "kind": None}, theta=never,
             threshold=real(0, 1, closed_low=True, closed_high=False), error=real(0, 1, closed_high=False),
             rate=choice("any", "share"), kind=optional(choice("posterior", "covering"))),
    function("intervals.sums", ad.intervals.sums,
             {"theta": Made("tree"), "groups": ["a", "b", "b"], "probability": 0.5, "kind": None}, theta=never,
             groups=no_matter, kind=optional(choice("posterior", "covering"))),
    function("intervals.covering_intervals", ad.intervals.covering_intervals,
             {"direct": direct_of_counts(np.array([2.0, 1.0, 0.0]), 3, SRR), "probability": 0.5},
             direct=instance(Direct)),
    function("intervals.privacy_share", ad.intervals.privacy_share,
             {"theta": Made("theta"), "n": 100, "prior": 1.0, "probability": 0.5}, theta=never, n=no_matter),
    function("intervals.shortest_intervals", ad.intervals.shortest_intervals,
             {"draws": [[0.5, 0.5]], "probability": 0.5}, draws=no_matter),
    *(function(f"likelihood.{call.__name__}", call, {"theta": THETA, "evidence": EVIDENCE})
      for call in (likelihood.log_likelihood, likelihood.gradient)),
    function("likelihood.phi_gradient", likelihood.phi_gradient, {"phi": [1, 2, 3], "evidence": EVIDENCE},
             phi=no_matter),
    function("likelihood.grid_posterior", likelihood.grid_posterior,
             {"responses": RESPONSES, "prior": 1.0, "cells": 10}, cells=integer(10, 1000)),
    function("likelihood.maximum_likelihood", likelihood.maximum_likelihood,
             {"evidence": EVIDENCE, "tolerance": 0.5, "max_iterations": 10},
             tolerance=real(0), max_iterations=integer(1, COUNT)),
    *(function(f"GridPosterior.{name}", getattr(likelihood.grid_posterior(RESPONSES, 1.0, 10), name),
               {"probability": 0.5}) for name in ("interval", "level")),
]
RATE = {"theta": THETA, "mechanism": RRRR}
DESIGN = [
    *(function(call.__name__, call, {"name": "honest", **RATE}, name=(UTILITY, "utility"), mechanism=instance(ad.RRRR))
      for call in (ad.utility, ad.select_subset)),
    function("semi_adaptive_subset", ad.semi_adaptive_subset, {"theta": THETA, "alpha": 0.5}, theta=no_matter),
    function("optimal_mechanism", lambda **given: ad.optimal_mechanism(**given).value,
             {"theta": THETA, "epsilon": 1.0, "n_left": 10.0, "criterion": "variance"}, theta=no_matter,
             n_left=real(1e-6, 1e18, closed_low=True), criterion=choice("variance", "worst"),
             start=optional(instance(ad.SetFamily)), gap=real(1e-5, 0.1, closed_low=True),
             max_sets=optional(integer(6))),
    *(function(call.__name__, call, {"theta": THETA, "mechanism": SRR}, subset=only_none)
      for call in (ad.asymptotic_variance, ad.efficiency)),
    function("plan", lambda **given: ad.plan(THETA, mechanisms="srr", simulate=False, progressbar=False, **given).table,
             {"people": 1000, "epsilon": 1.0, "prior": 1.0}),
    function("design.mechanism_table", lambda **given: ad.design.mechanism_table(mechanisms="srr", **given),
             {"n_categories": 3, "epsilon": 1.0, "theta": THETA}, theta=optional(shares())),
    function("design.efficiency_table", lambda **given: ad.design.efficiency_table(mechanisms="srr", **given),
             {"n_categories": 3, "epsilons": [1.0], "theta": THETA}, theta=optional(shares())),
    function("Utility", ad.Utility, {"name": "a", "reference": "b", "function": len},
             function=Kind(anything.filter(lambda value: not callable(value)))),
    function("a utility of one's own",
             lambda returned: ad.utility(THETA, RRRR, ad.Utility("a", "", lambda *_: returned)),
             {"returned": [1.0, 2.0, 3.0]}, returned=(NO_VALUES, "utility")),
]
SAMPLERS = [
    function("sample", _quiet(ad.sample),
             {"responses": RESPONSES, "sampler": "gibbs", "prior": 1.0, "draws": 4, "tune": 2, "chains": 2,
              "random_seed": 1}, sampler=choice("gibbs", "sgld", "nuts", "best", "sgld_cv")),
    function("sample, sgld", _sgld,
             {"batch_size": 2, "step_size": 0.5, "updates_per_draw": 1, "diffusion": "reflected"},
             batch_size=optional(integer(1)), updates_per_draw=integer(1, COUNT),
             diffusion=choice("reflected", "preconditioned")),
    function("sample, schedule", _sgld, {"schedule": None}, schedule=no_matter),
    function("sample, progressbar", ad.sample, {"responses": RESPONSES}, progressbar=flag),
    function("a schedule of one's own", lambda returned: _sgld(schedule=lambda update, n: returned), {"returned": 0.1},
             returned=(NO_STEPS, "schedule")),
    function("extend", _quiet(ad.extend), {"tree": Made("tree"), "draws": 5}, tree=never),
    function("recorded_arguments", ad.recorded_arguments, {"attributes": {}}, attributes=never),
    function("ConstantSteps", ad.ConstantSteps, {"step_size": 0.5}, step_size=POSITIVE),
    function("PaperSteps", ad.PaperSteps, {"scale": 0.5}),
    function("DecayingSteps", ad.DecayingSteps, {"scale": 0.5, "power": 0.5}, power=real(0, 1, closed_low=True)),
    function("schedule_from_settings", schedule_from_settings, {"settings": {}}, settings=(never, "schedule")),
    function("frequency_model", lambda **given: len(ad.frequency_model(**given).free_RVs),
             {"responses": RESPONSES, "prior": 1.0, "surrogate": False}, surrogate=flag),
]
SAME, ADAPTIVE = ad.SameQuestion(SRR), ad.AdaptiveSubset(RRRR)
LOOP = {"mechanism": RRRR, "prior": 1.0, "updates": 2, "batch_size": 5, "step_size": None, "adapt_every": 1,
        "utility": "honest"}
POLICIES = (ad.SameQuestion, ad.AdaptiveSubset, ad.Rounds)
COLLECT = [
    function("AdaptiveSubset", lambda **given: ad.Collection.create(policy=ad.AdaptiveSubset(**given), random_seed=1),
             LOOP, mechanism=instance(ad.RRRR), sampler=no_matter, alpha=only_none),
    function("SameQuestion", lambda **given: ad.Collection.create(policy=ad.SameQuestion(**given)).responses,
             {"mechanism": SRR}, subset=only_none),
    function("Rounds", lambda **given: ad.Collection.create(policy=ad.Rounds(**given), random_seed=1),
             {"mechanism": PLANNED, "n_people": 600, "rounds": None, "prior": 1.0},
             mechanism=instance(ad.SubsetSelection), rounds=optional(integer(1, 600))),
    function("Collection", lambda **given: ad.Collection.create(**given).responses,
             {"policy": SAME, "categories": NAMES, "random_seed": 1}, policy=instance(*POLICIES)),
    function("Collection.record", lambda **given: _recorded(SAME, **given), {"answer": [0, 1], "question": 0},
             answer=indices(3), question=optional(integer(0, 0))),
    function("Collection.record, subsets", lambda **given: _recorded(ADAPTIVE, **given), {"answer": [0, 1]},
             answer=indices(3)),
    function("WordSearch", lambda **given: repr(ad.WordSearch.create(n_people=20_000, **given)),
             {"epsilon": 4.0, "alphabet": "ab", "longest": 3, "step": 1, "missed": 0.05, "false": 0.05},
             alphabet=no_matter, longest=integer(1, 1000), step=integer(1, 8), epsilon=no_matter,
             missed=real(0, 1, closed_high=False), false=real(0, 1, closed_high=False)),
    function("WordSearch.open", ad.WordSearch.open, {"folder": "none"}, folder=never),
    function("Collection.open", ad.Collection.open, {"path": "none"}),
    function("Collection.copy", ad.Collection.create(policy=SAME).copy, {"path": "no/folder/x.sqlite"}, path=no_matter),
    function("collect_csv", collect.collect_csv, {"path": "no such file", "column": "vote", "epsilon": 1.0},
             epsilon=no_matter),
]
SIMULATE = [
    function("simulate_adaptive", ad.simulate_adaptive,
             {"theta": THETA, "policy": ADAPTIVE, "n_people": 5, "final_updates": 2, "path_length": 3,
              "categories": NAMES, "random_seed": 1}, theta=shares(labels=NAMES),
             policy=instance(ad.AdaptiveSubset), n_people=optional(integer(1, COUNT))),
    function("simulate_adaptive, people", partial(ad.simulate_adaptive, None, ADAPTIVE, final_updates=2, random_seed=1),
             {"people": [0, 1]}, people=indices(3)),
    function("simulate_rounds", partial(ad.simulate_rounds, THETA),
             {"mechanism": PLANNED, "n_people": 30, "rounds": 1, "prior": 1.0, "random_seed": 1},
             mechanism=instance(ad.SubsetSelection), rounds=optional(integer(1, 30)),
             n_people=optional(integer(1, COUNT))),
    function("simulate_words", partial(ad.simulate_words, alphabet="ab"),
             {"words": ["ab"] * 2000, "epsilon": 6.0, "random_seed": 1, "longest": 3, "missed": 0.05, "false": 0.05},
             words=no_matter, longest=no_matter, missed=real(0, 1, closed_high=False),
             false=real(0, 1, closed_high=False)),
    function("simulated_poll", lambda **given: simulated_poll(**given).responses,
             {"n_people": 5, "epsilon": 1.0, "mechanism": "rrrr", "kappa": 0.5, "utility": "honest", "random_seed": 1},
             mechanism=optional(choice("rrrr", "RRRR")), kappa=optional(real(0, 1)), utility=optional(UTILITY)),
]
DIAGNOSTICS = [
    function("references.load", ad.references.load, {}, name=choice(*ad.references.names())),
    function("compare", diagnostics.compare,
             {"draws": Made("trees"), "reference": "a", "truth": THETA, "resamples": 9, "random_seed": 0}, draws=never,
             reference=choice("a", "b"), truth=optional(shares(labels=NAMES)), resamples=integer(1),
             random_seed=integer(0)),
    function("contraction", diagnostics.contraction,
             {"posteriors": Made("posteriors"), "truth": THETA, "probability": 0.5, "fit_from": 1}, posteriors=never,
             probability=Kind(KINDS["probability"].wrong), fit_from=integer(1)),
    function("contraction, one label", lambda items: diagnostics.contraction({"a": items}, THETA), {"items": None},
             items=(never, "posteriors")),
    function("checkpoints", diagnostics.checkpoints, {"responses": RESPONSES, "ns": [3]}, ns=no_matter),
    function("goodness_of_fit", diagnostics.goodness_of_fit, {"tree": Made("tree"), "responses": None}, tree=never,
             responses=optional(instance(ad.Responses))),
    function("explain", _quiet(diagnostics.explain),
             {"draws": Made("tree"), "responses": RESPONSES, "reference": Made("long"), "random_seed": 0}, draws=never,
             reference=only_none, random_seed=integer(0)),
    function("explanation_in_words", diagnostics.explanation_in_words,
             {"explanation": Made("explanation"), "name": "It"}, explanation=never),
    function("verdict_in_words", diagnostics.verdict_in_words, {"row": Made("row")}, row=never),
    function("best_subset_frequency", diagnostics.best_subset_frequency,
             {"runs": Made("runs"), "truth": THETA, "window": 5}, runs=never, window=optional(integer(1, 20))),
    function("calibration", _quiet(diagnostics.calibration),
             {"fit": _fit, "mechanism": SRR, "prior": 1.0, "n_people": 5, "replications": 2, "n_ranked": 3,
              "random_seed": 1}, n_people=integer(0), replications=integer(2), n_ranked=integer(1), levels=no_matter,
             budget=optional(real(0))),
    function("model_calibration", _quiet(diagnostics.model_calibration), {"build": None, "responses": RESPONSES},
             build=Kind(but("function"))),
    function("grade", _quiet(diagnostics.grade), {"samplers": None}, samplers=(Kind(but("function")), "sampler")),
    function("grade_samplers", grade_samplers, {"poll": None}, poll=never),
    function("write_report", write_report, {"findings": None, "folder": "no/folder"}, findings=never),
]
MATRIX = (Kind(channel().wrong), "must")
PLOTS = [
    function("plot_study", _closed(plot_study), {"dataset": None, "measure": "tv"}, dataset=never),
    *(function(f"plots.{name}", _closed(getattr(plots, name)), good, **kinds) for name, good, kinds in (
        ("plot_channel", {"mechanism": SRR, "categories": NAMES, "ax": None}, {"mechanism": MATRIX}),
        ("plot_belief", {"answer": 0, "prior": THETA, "mechanism": SRR, "categories": NAMES, "ax": None},
         {"answer": integer(0, 2), "prior": optional(shares()), "mechanism": MATRIX}),
        ("plot_simplex", {"draws": Made("trees"), "truth": THETA, "axes": None},
         {"draws": never, "truth": optional(shares(labels=NAMES))}),
        ("plot_comparison", {"dataset": Made("compare"), "axes": None}, {"dataset": never}),
        ("plot_calibration", {"dataset": None}, {"dataset": never}),
        ("plot_grades", {"dataset": None}, {"dataset": never}),
        ("plot_contraction", {"result": Made("contraction"), "axes": None}, {"result": never}),
        ("plot_best_subset", {"result": Made("best_subset"), "axes": None}, {"result": never}),
        ("plot_frontier", {"points": Made("frontier"), "axes": None}, {"points": never}),
        ("plot_estimates", {"draws": Made("trees"), "truth": None, "ax": None},
         {"draws": never, "truth": optional(shares(labels=NAMES)), "categories": only_none}),
        ("plot_ranked", {"tree": Made("tree"), "threshold": 0.1, "truth": None, "labels": 2, "ax": None},
         {"tree": never, "threshold": optional(real(0, 1, closed_low=True, closed_high=False)),
          "truth": optional(shares(labels=NAMES)), "labels": integer(0)}),
        ("plot_shares", {"table": Made("estimate"), "group": None, "ax": None}, {"table": never, "group": no_matter}),
        ("plot_plan", {"plan": None}, {"plan": never}),
        ("plot_efficiency", {"efficiencies": None}, {"efficiencies": never}),
        ("plot_traces", {"draws": Made("trees"), "categories": ["red"]}, {"draws": never, "categories": never}),
        ("plot_ranks", {"draws": Made("trees"), "categories": ["red"]}, {"draws": never, "categories": never}),
        ("plot_honest_response", {"epsilons": [1.0], "n_categories": 3, "kappa": 0.5, "sizes": [1]},
         {"epsilons": no_matter, "sizes": no_matter, "ratios": no_matter})))
]
FILES = [
    *(function(name, call, {"path": "none"}, path=(never, word)) for name, call, word in (
        ("Responses.from_netcdf", ad.Responses.from_netcdf, "path"),
        ("read_tree", ad.answers.read_tree, "path"),
        ("poll_of_responses", poll_of_responses, "path"),
        ("open_study", open_study, "must be a"),
        ("study_status", study_status, "must be a"),
        ("read_study", read_study, "path"))),
    function("gather", ad.gather, {"paths": "no such file"}, paths=never, allow_copies=no_matter),
    function("Gathered.open", ad.answers.Gathered.open, {"store": "no such folder"}, store=never),
    function("poll_of_people", poll_of_people, {"path": "no such file", "column": "vote", "epsilon": 1.0},
             epsilon=no_matter),
    function("cell_settings", cell_settings, {**K_EPSILON, "kappa": 0.5, "rho": 1.0, "people": 10, "mechanism": "rrrr",
                                  "utility": "honest"}, rho=POSITIVE, mechanism=no_matter, utility=no_matter),
]
MODEL = [
    function(name, getattr(ad.model, name), good, **dict.fromkeys(good, no_matter))
    for name, good in (
        ("zero_sum", {"free": [[1.0, 0.0]]}),
        ("multinomial_logit", {"covariates": [[0.0]], "coefficients": [[0.0, 0.0], [1.0, 0.0]]}),
        ("transition_matrix", {"subset_mask": [True, False], "epsilon1": 1.0, "epsilon2": 1.0}),
        ("transition_rows", {"answers": [0], "subset_mask": [True, False], "epsilon1": 1.0, "epsilon2": 1.0}),
        ("marginal_log_likelihood", {"theta": THETA, "evidence": EVIDENCE}),
        ("pointwise_log_likelihood", {"theta": THETA, "evidence": EVIDENCE, "index": [0, 1, 2]}),
        ("pairs_log_likelihood", {"theta": [THETA], "evidence": EVIDENCE, "index": [0, 1, 2], "group": [0, 0, 0]}),
    )
]
# fmt: on
FUNCTIONS = [*MECHANISMS, *DATA, *DESIGN, *SAMPLERS, *COLLECT, *SIMULATE, *DIAGNOSTICS, *PLOTS, *FILES, *MODEL]
