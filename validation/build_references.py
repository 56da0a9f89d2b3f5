"""Build the archive of reference posteriors: ``python -m validation.build_references [--only NAME …] [--out FOLDER]``.

Most are of shares θ that all people have in common, some of the coefficients of a regression. Each has answers that are
simulated from a stated seed, and 4 × 2,800 draws that are thinned until they are nearly independent. Nothing is written
that does not meet the limits below. Draws are rounded to 16 bits behind the leading one (a relative error of at most
2⁻¹⁷, or 8·10⁻⁶), which makes the files three times smaller.

The numbers depend on the processor to the last bit, and chains of NUTS amplify such differences. So the archive is
built once, and kept in the repository. A change of any number needs a new `VERSION`.
"""

import argparse
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

import adobest_pp as ad
from adobest_pp._dirichlet import LOG_CONCENTRATION, draw_dirichlet, draw_people
from adobest_pp._files import netcdf_bytes, seal, unseal, write_whole
from adobest_pp.diagnostics.comparison import compare
from adobest_pp.diagnostics.draws import mixing
from adobest_pp.diagnostics.references import ARCHIVE, DESCRIPTION
from adobest_pp.mechanisms import Mechanism
from adobest_pp.samplers.checks import CONVERGED
from adobest_pp.samplers.registry import resolve

VERSION = "2"
CHAINS, DRAWS, TUNE = 4, 2800, 2000
# One draw of this many is kept; the next number is tried if the draws are not certified.
THINNING = (10, 40, 160)
MIN_ESS = 10_000
MAX_AUTOCORRELATION = 0.05
# Bits of a number that are kept behind its leading one, of 52.
BITS = 16
PACKAGES = ("adobest_pp", "numpy", "numba", "pymc", "nutpie")


@dataclass(frozen=True)
class Setting:
    """What a reference is of: a truth from Dirichlet(ρ), people, a mechanism, and the prior of θ.

    RRRR collects adaptively, with the utility ``"tv1"`` and the exact sampler. Draws are those of NUTS, or of Gibbs
    sampling under a sparse prior, where a few draws of NUTS in ten thousand diverge. The seed is 1 unless its answers
    happen to fail the check of fit, as one collection in a hundred may.

    With covariates it is a regression, the multinomial logit of `regression_model`. Covariates are standard normal
    draws, standardized, and true coefficients are N(0, ρ²); `prior` is the sd of their normal prior.
    """

    group: str
    mechanism: Mechanism
    rho: float
    n_people: int
    prior: float | str = 1.0
    sampler: str = "nuts"
    seed: int = 1
    covariates: tuple[str, ...] = ()


SETTINGS = {
    "srr_two": Setting("easy", ad.SRR(2, 1.0), 1.0, 1000),
    "srr": Setting("easy", ad.SRR(10, 1.0), 1.0, 5000),
    "subset_selection": Setting("easy", ad.SubsetSelection(8, 1.0), 1.0, 4000),
    "unary_encoding": Setting("easy", ad.UnaryEncoding(6, 1.0), 1.0, 3000),
    "local_hashing": Setting("easy", ad.LocalHashing(6, 1.0), 1.0, 3000, seed=2),
    "hadamard_response": Setting("easy", ad.HadamardResponse(7, 1.0), 1.0, 4000),
    "rrrr_even": Setting("easy", ad.RRRR(10, 1.0, 0.9), 1.0, 5000),
    "rrrr_uneven": Setting("small_epsilon", ad.RRRR(10, 0.5, 0.8), 0.1, 5000),
    "subset_selection_small_epsilon": Setting("small_epsilon", ad.SubsetSelection(10, 0.2), 1.0, 5000),
    "srr_sparse": Setting("sparse", ad.SRR(5, 3.0), 0.1, 1000, 0.1, "gibbs"),
    "srr_very_sparse": Setting("sparse", ad.SRR(20, 4.0), 0.05, 2000, 0.1, "gibbs"),
    "hadamard_response_many": Setting("many_categories", ad.HadamardResponse(50, 1.0), 0.5, 20_000),
    "srr_many": Setting("many_categories", ad.SRR(200, 5.0), 0.5, 20_000),
    "srr_regression": Setting("regression", ad.SRR(3, 2.0), 0.7, 2000, 1.5, covariates=("age", "income")),
    "unary_encoding_regression": Setting(
        "regression", ad.UnaryEncoding(5, 2.0), 0.7, 4000, 1.5, covariates=("age", "schooling", "income")
    ),
    "subset_selection_regression": Setting(
        "regression", ad.SubsetSelection(6, 0.7), 0.7, 1500, 1.5, covariates=("age",)
    ),
    "srr_learned": Setting("learned_prior", ad.SRR(20, 1.0), 0.1, 10_000, "learned"),
    "subset_selection_learned": Setting("learned_prior", ad.SubsetSelection(8, 1.0), 0.01, 2000, "learned"),
}


def simulated(setting: Setting) -> tuple[ad.Responses, np.ndarray]:
    """Return the answers, the same each time, and the true shares or coefficients."""
    rng = np.random.default_rng(setting.seed)
    mechanism, k = setting.mechanism, setting.mechanism.n_categories
    if setting.covariates:
        table = covariates_of(setting)
        truth = setting.rho * rng.normal(size=(1 + table.shape[1], k - 1))
        logits = np.column_stack([np.zeros(len(table)), truth[0] + table @ truth[1:]])
        ends = np.cumsum(np.exp(logits), axis=1)
        x = (rng.random(len(table))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
        return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), truth
    truth = draw_dirichlet(rng, np.full(k, setting.rho))
    x = draw_people(rng, truth, setting.n_people)
    if not mechanism.publishes_subset:
        return ad.Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng)), truth
    policy = ad.AdaptiveSubset(cast(ad.RRRR, mechanism), "tv1", sampler="exact", adapt_every=k)
    run = ad.simulate_adaptive(None, policy, people=x, final_updates=2, random_seed=setting.seed)
    return run.responses, truth


def covariates_of(setting: Setting) -> np.ndarray:
    """Return the covariates, rounded to float32 as the archive keeps them."""
    rng = np.random.default_rng([setting.seed, 1])
    table = rng.normal(size=(setting.n_people, len(setting.covariates)))
    return ((table - table.mean(axis=0)) / table.std(axis=0)).astype(np.float32).astype(np.float64)


def made(name: str, setting: Setting, responses: ad.Responses) -> xr.DataTree:
    """Sample and thin until the draws are certified, or raise RuntimeError."""
    problem = ""
    for thinning in THINNING:
        sizes = (thinning * DRAWS, TUNE, CHAINS, setting.seed)
        if setting.covariates:
            labels = {"covariate": list(setting.covariates)}
            table = xr.DataArray(covariates_of(setting), labels, ("response", "covariate"), "covariates")
            tree: xr.DataTree = resolve(setting.sampler).draw(responses, setting.prior, *sizes, covariates=table)
            tree["constant_data"], tree["responses"] = map(xr.DataTree, (table.to_dataset(), responses.to_xarray()))
            tree.attrs["prior_sd"] = setting.prior
        else:
            tree = ad.sample(responses, setting.sampler, setting.prior, *sizes, progressbar=False)
        stats = tree["sample_stats"].to_dataset()
        diverged = int(stats["diverging"].sum()) if "diverging" in stats else 0
        some = tree["posterior"].to_dataset().isel(draw=slice(thinning - 1, None, thinning))
        some = some.transpose("chain", "draw", ...)
        rounded = some.map(lambda values: values.copy(data=round_bits(values.values)), keep_attrs=True)
        if not setting.covariates:
            rounded["theta"] = rounded["theta"] / rounded["theta"].sum("category")
        tree["posterior"] = rounded.assign_coords(draw=np.arange(DRAWS))
        found = certificate(tree) | {"divergences": diverged, "thinning": thinning, "sampler": setting.sampler}
        problem = flaw(found)
        print(f"{name}: thinned by {thinning}: {problem or 'certified'}", flush=True)
        if not problem:
            tree.attrs |= {"certificate": found, "rounded": {n: round_bits(some[n].values) for n in some.data_vars}}
            return tree
    raise RuntimeError(f"the reference posterior {name!r} cannot be certified: {problem}")


def round_bits(values: np.ndarray, bits: int = BITS) -> np.ndarray:
    """Round numbers to a number of bits behind the leading one. Bytes that are zero take hardly any room in a file."""
    spare = np.uint64(52 - bits)
    whole = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    half = np.uint64(1) << (spare - np.uint64(1))
    return ((whole + half) >> spare << spare).view(np.float64)


def certificate(tree: xr.DataTree) -> dict[str, float]:
    """Return what is certified of θ or the coefficients, and of a where it is learned.

    NaN, as draws that do not move give, meets no limit.
    """
    posterior = tree["posterior"].to_dataset()
    values = [posterior[name].transpose("chain", "draw", ...).values for name in posterior.data_vars]
    chains = np.concatenate([value.reshape(*value.shape[:2], -1) for value in values], axis=2)
    mixed = mixing(chains)
    centered = chains - chains.mean(axis=(0, 1))
    lagged = (centered[:, 1:] * centered[:, :-1]).mean(axis=(0, 1)) / (centered**2).mean(axis=(0, 1))
    graded = compare({"reference": tree}, "reference").isel(sampler=0)
    return {
        "r_hat": float(np.max(mixed["r_hat"])),
        "ess_bulk": float(np.min(mixed["ess_bulk"])),
        "ess_tail": float(np.min(mixed["ess_tail"])),
        "autocorrelation": float(np.max(np.abs(lagged))),
        **({} if graded["stein_missing"].item() else {"stein_p_value": float(graded["stein_p_value"])}),
    }


def flaw(found: dict[str, Any]) -> str:
    """Return which limits are not met, or nothing."""
    parts = []
    if not found["r_hat"] < CONVERGED.max_r_hat:
        parts.append(f"R-hat is {found['r_hat']:.3f} (below {CONVERGED.max_r_hat:g} is needed)")
    if not found["ess_bulk"] >= MIN_ESS:
        parts.append(f"the bulk ESS is {found['ess_bulk']:.0f} (at least {MIN_ESS:,} is needed)")
    if not found["autocorrelation"] < MAX_AUTOCORRELATION:
        parts.append(f"autocorrelation is {found['autocorrelation']:.3f} (below {MAX_AUTOCORRELATION:g} is needed)")
    if found["divergences"]:
        parts.append(f"{found['divergences']} draws diverged (none may)")
    if not found.get("stein_p_value", 1.0) > 0.001:
        parts.append(f"the p-value of the Stein discrepancy is {found['stein_p_value']:.2g} (above 0.001 is needed)")
    return ", ".join(parts)


def write(name: str, setting: Setting, out: Path, netcdf: bool) -> dict[str, Any]:
    """Make one reference, write its files, and return its description."""
    responses, truth = simulated(setting)
    tree = made(name, setting, responses)
    learned = isinstance(setting.prior, str)
    about: dict[str, Any] = {
        "group": setting.group,
        "mechanism": responses.mechanism.settings(),
        "categories": list(responses.categories),
        "n_people": len(responses),
        "prior": setting.prior if learned else [float(setting.prior)] * responses.n_categories,
        "truth": truth.tolist(),
        "truth_from": f"Dirichlet({setting.rho:g}, …)",
        "seed": setting.seed,
        "made_with": {package: version(package) for package in PACKAGES},
    }
    if learned:
        about["learned_prior"] = "Dirichlet(a, …, a), ln a ~ N({:g}, {:g}²)".format(*LOG_CONCENTRATION)
    if setting.covariates:
        about |= {"covariates": list(setting.covariates), "prior": {"sd": setting.prior}}
        about["truth_from"] = f"N(0, {setting.rho:g}²)"
    answers = np.asarray(responses.answers).reshape(len(responses), -1)
    kind = np.int32 if answers.max() <= np.iinfo(np.int32).max else np.int64
    columns: dict[str, Any] = {f"answer_{i}": column.astype(kind) for i, column in enumerate(answers.T)}
    about["answers"] = {"file": f"{name}.answers.parquet", "columns": list(columns)}
    if responses.mechanism.publishes_subset:
        about["subsets"] = responses.subsets.astype(int).tolist()
        columns["subset"] = responses.subset_index.astype(np.int32)
    for i, column in enumerate(covariates_of(setting).T if setting.covariates else ()):
        columns[f"covariate_{i}"] = column.astype(np.float32)
    write_parquet(out, about["answers"], columns, split=False)
    rounded, certified = tree.attrs.pop("rounded"), tree.attrs.pop("certificate")
    what = "coefficient" if setting.covariates else "theta"
    flat = rounded[what].reshape(CHAINS * DRAWS, -1)
    draws = {f"{what}_{i}": column for i, column in enumerate(flat.T)}
    if learned:
        draws["concentration"] = rounded["concentration"].ravel()
    about["draws"] = {"file": f"{name}.draws.parquet", "chains": CHAINS, "draws": DRAWS, "bits": BITS}
    write_parquet(out, about["draws"], draws, split=True)
    if netcdf:
        write_whole(out / f"{name}.nc", netcdf_bytes(tree), overwrite=True)
    return about | {"certificate": certified}


def write_parquet(out: Path, about: dict[str, Any], columns: dict[str, np.ndarray], *, split: bool) -> None:
    """Write a table, and its checksum into the description. `split` keeps bytes of numbers apart: they pack better."""
    buffer, table = io.BytesIO(), pa.table(columns)
    options = {"use_dictionary": False, "use_byte_stream_split": True} if split else {}
    pq.write_table(table, buffer, compression="zstd", compression_level=19, **options)
    write_whole(out / about["file"], buffer.getvalue(), overwrite=True)
    about["sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> None:
    """Build all references, or some of them into an archive that has the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), help="build these alone, and keep the others")
    parser.add_argument("--out", type=Path, default=ARCHIVE, help="the folder of the archive")
    parser.add_argument("--netcdf", action="store_true", help="write each reference as a netCDF file, too")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    place = options.out / DESCRIPTION
    known = unseal(place.read_bytes())["references"] if place.is_file() else {}
    for name in options.only or SETTINGS:
        known[name] = write(name, SETTINGS[name], options.out, options.netcdf)
        ordered = {one: known[one] for one in SETTINGS if one in known}
        write_whole(place, seal({"version": VERSION, "references": ordered}), overwrite=True)


if __name__ == "__main__":
    main()
