"""Every sampler on every reference posterior, within the same time: which are right, how far off others are, how fast.

`diagnostics.grade` runs each sampler in a process of its own, up to 4 × 4,000 draws, or as many as a budget of 3 s of
the processor for a run allows. Seconds are those of this machine's processor. A sampler that takes no learned prior or
no regression fails there, and says so. Exits with 1 if NUTS or ``sgld_cv`` is called biased more often than false
alarms explain, or fails on a reference that it takes for another reason than time.

``python -m validation.leaderboard --only nuts sgld_cv`` grades some samplers again and keeps the grades of the others.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import adobest_pp as ad
from adobest_pp.diagnostics.grading import FAILED, as_records, gradients_of
from validation.common import SEED, Finding, Options, finding, main, table
from validation.results import Table, make_table, read

BUDGET = 3.0
OTHERS = ("sghmc", "sgnht", "svrg", "amagold", "barker", "skew_reflected")
DIFFUSIONS = ("reflected", "preconditioned", "log_ratio", "cox_ingersoll_ross", "mirrored")
GRADIENTS = ("minibatch", "control_variates")
# Control variates may be negative, and this diffusion takes no such gradient.
REFUSED = ("cox_ingersoll_ross", "control_variates")
# What --quick runs.
FEW = {"names": ["srr_two", "srr_sparse"], "samplers": ("nuts", "gibbs", "sgld_cv", "sgld: reflected, minibatch")}
# A right sampler is called biased with a probability of 1 % at most: of 15 or 18, two or more with 1 %.
ALARMS_ALLOWED = 1
COLUMNS = {
    "verdict": "verdict",
    "mean_shift": "mean off",
    "sd_ratio": "sd ratio",
    "tail_error": "tails off",
    "stein_p_value": "Stein p",
    "ess_bulk": "ESS",
    "ess_per_second": "ESS/s",
    "ess_per_gradient": "ESS/gradient",
}


def sgld_of(
    responses: Any, prior: Any, draws: int, tune: int, chains: int, seed: int, *, diffusion: str, gradient: str
) -> Any:
    """Sample with SGLD, in the pieces and at the steps that are named."""
    pieces: dict[str, Any] = {"diffusion": diffusion, "gradient": gradient}
    tree = ad.sample(responses, "sgld", prior, draws, tune, chains, seed, progressbar=False, **pieces)
    tree.attrs["gradient_evaluations"] = gradients_of(tree, draws, responses.evidence().n_rows)
    return tree


def samplers() -> dict[str, Any]:
    """Return the samplers to grade, by label."""
    found: dict[str, Any] = {name: name for name in ("nuts", "gibbs", "sgld_cv", *OTHERS)}
    for diffusion in DIFFUSIONS:
        for gradient in GRADIENTS:
            if (diffusion, gradient) == REFUSED:
                continue
            found[f"sgld: {diffusion}, {gradient}"] = partial(sgld_of, diffusion=diffusion, gradient=gradient)
    return found


GRADES = ["sampler", "group", "reference", "K", *COLUMNS.values(), "why"]
POINTS = ["sampler", "reference", "draws", "seconds", "gradients", "error"]


def graded(chosen: dict[str, Any], names: Sequence[str] | None, seed: int) -> list[Table]:
    """Grade samplers, and return the tables that docs/samplers.md is made of."""
    result = ad.diagnostics.grade(chosen, names=names, budget=BUDGET, random_seed=seed)
    records = as_records(result)["grades"]
    rows = [
        [one["sampler"], one["group"], one["reference"], len(ad.references.described()[one["reference"]]["categories"])]
        + [_cell(one[key]) for key in COLUMNS]
        + [one["in_words"] if one["verdict"] != "indistinguishable" else ""]
        for one in records
    ]
    points = [
        [one["sampler"], one["reference"], *map(_cell, run)]
        for one in records
        for run in zip(*(one["runs"][key] for key in POINTS[2:]), strict=True)
    ]
    setting = {"budget": BUDGET, "archive": result.attrs["archive_version"]}
    return [make_table(GRADES, rows, name="grades", setting=setting), make_table(POINTS, points, name="points")]


def findings(options: Options) -> list[Finding]:
    """Grade the samplers, show their tables, and return the findings."""
    chosen, names = samplers(), None
    if options.quick:
        chosen, names = {name: chosen[name] for name in FEW["samplers"]}, FEW["names"]
    tables = graded(chosen, names, options.seed)
    for one in tables:
        table(one.headers, one.rows, name=one.name, setting=one.setting)
    return findings_of(tables[0])


def findings_of(grades: Table) -> list[Finding]:
    """Return the findings of a table of grades."""
    rows = [dict(zip(grades.headers, row, strict=True)) for row in grades.rows]
    return [_is_right(rows, name) for name in ("nuts", "sgld_cv")] + [_is_caught(rows)]


def grade_again(names: list[str]) -> None:
    """Grade some samplers again, and write them in place of their rows of the kept result, whose seed they get."""
    kept = read("leaderboard")
    every, tables = samplers(), []
    order = list(every)
    for new in graded({name: every[name] for name in names}, None, kept.seed or SEED):
        old = kept.table(new.name)
        if old.setting != new.setting:
            raise ValueError("all samplers must be graded again: the budget or the references have changed")
        rows = [row for row in old.rows if row[0] not in names] + list(new.rows)
        tables.append(replace(old, rows=tuple(sorted(rows, key=lambda row: order.index(row[0])))))
    today = datetime.now(UTC).date().isoformat()
    replace(kept.with_tables(tables), findings=tuple(findings_of(tables[0])), date=today).write()


def _cell(value: Any) -> Any:
    return "–" if value is None else value


def _is_right(rows: list[dict[str, Any]], name: str) -> Finding:
    own = [one for one in rows if one["sampler"] == name and (name == "nuts" or one["group"] != "regression")]
    count = {
        verdict: sum(one["verdict"] == verdict for one in own) for verdict in ("indistinguishable", "biased", FAILED)
    }
    slow = sum("took longer" in one["why"] for one in own if one["verdict"] == FAILED)
    passed = count["biased"] <= ALARMS_ALLOWED and count[FAILED] == slow
    which = "all reference posteriors" if name == "nuts" else "all reference posteriors except regressions"
    text = f"{name} samples {which}, or is too slow for the budget"
    return finding(f"{name} is right", text, passed, **count, too_slow=slow, references=len(own))


def _is_caught(rows: list[dict[str, Any]]) -> Finding:
    own = [one for one in rows if one["sampler"] == "sgld: reflected, minibatch"]
    wrong = sum(one["verdict"] in ("biased", "not_mixed") for one in own)
    text = "SGLD with the paper's steps is biased or has not mixed on some reference posteriors"
    return finding("the paper's SGLD is caught", text, wrong > 0, caught=wrong, references=len(own))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        grade_again(sys.argv[2:])
    else:
        sys.exit(main(findings, __doc__))
