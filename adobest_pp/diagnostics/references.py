"""Reference posteriors: named answers with certified draws, to grade samplers with.

The archive is part of the package, and its numbers are the same for everybody. ``references.json`` in the folder
``reference_archive`` describes each reference: mechanism, prior, true shares, seed, certificate, and the SHA-256 of its
two Parquet files, one with the answers and one with the draws. ``README.md`` beside it says how to read them from other
languages; ``python -m validation.build_references`` makes them. The idea comes from posteriordb [1]_.

References
----------
.. [1] M. Magnusson, J. Torgander, P.-C. Bürkner, L. Zhang, B. Carpenter and A. Vehtari (2025), posteriordb: testing,
   benchmarking and developing Bayesian inference algorithms, AISTATS.
"""

import hashlib
import io
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from adobest_pp._files import unseal
from adobest_pp._text import brief
from adobest_pp.answers.responses import Responses
from adobest_pp.mechanisms import mechanism_from_settings

__all__ = ["Reference", "groups", "load", "names"]

ARCHIVE = Path(__file__).parent / "reference_archive"
DESCRIPTION = "references.json"


class Reference(NamedTuple):
    """The answers, and certified draws of their posterior as `sample` returns them.

    Attributes
    ----------
    responses : Responses
        The answers that a sampler gets.
    draws : xarray.DataTree
        With ``posterior/theta``; for a regression with ``posterior/coefficient`` as from `regression_model`, and with
        ``constant_data/covariates``. The attributes have the prior, the name and group of the reference, the truth, and
        the certified properties.
    """

    responses: Responses
    draws: xr.DataTree

    @property
    def covariates(self) -> xr.DataArray | None:
        """The covariates, by response and covariate; None without a regression."""
        if "constant_data" not in self.draws.children:
            return None
        return self.draws["constant_data"].to_dataset()["covariates"]

    @property
    def parameters(self) -> xr.DataArray:
        """The draws: of θ, or of the coefficients of a regression."""
        return self.draws["posterior"].to_dataset()["theta" if self.covariates is None else "coefficient"]

    def __repr__(self) -> str:
        return f"<Reference: draws of {self.responses!r}>"


def groups() -> list[str]:
    """Return the groups of reference posteriors.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.references.groups()
    ['easy', 'small_epsilon', 'sparse', 'many_categories', 'regression', 'learned_prior']
    """
    return list(dict.fromkeys(about["group"] for about in described().values()))


def names(group: str | None = None) -> list[str]:
    """Return the names of the reference posteriors, or of those of a group.

    Parameters
    ----------
    group : str, optional
        One of `groups`.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> ad.references.names("sparse")
    ['srr_sparse', 'srr_very_sparse']
    """
    if group is not None and (not isinstance(group, str) or group not in groups()):
        raise ValueError(f"group must be one of {', '.join(map(repr, groups()))}, got {brief(group)}")
    return [name for name, about in described().items() if group in (None, about["group"])]


def load(name: str) -> Reference:
    """Return a reference posterior.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Reference
        The responses, and 11,200 draws: at least 10,000 effective in every category or coefficient, R-hat below 1.01,
        an autocorrelation of neighboring draws below 0.05, no divergences. Raises ValueError if a file of the archive
        is damaged.

    See Also
    --------
    adobest_pp.diagnostics.compare : Grades draws of your own against it.
    adobest_pp.diagnostics.grade : Grades a sampler on all references.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> reference = ad.references.load("srr")
    >>> mine = ad.sample(reference.responses, "nuts", random_seed=3, progressbar=False)
    >>> result = ad.diagnostics.compare({"mine": mine}, reference=reference)
    >>> result.verdict.values.tolist()
    ['indistinguishable', 'reference']
    """
    if not isinstance(name, str) or name not in described():
        raise ValueError(f"name must be one of {', '.join(map(repr, described()))}, got {brief(name)}")
    about = described()[name]
    responses = _responses(about)
    columns = _columns(about["draws"])
    shape = (about["draws"]["chains"], about["draws"]["draws"])
    coords: dict[str, Any] = {"chain": range(shape[0]), "draw": range(shape[1])}
    groups: dict[str, xr.Dataset] = {"responses": responses.to_xarray()}
    prior, variables = about["prior"], dict[str, Any]()
    if "covariates" in about:
        covariates = _numbered(_columns(about["answers"]), "covariate", len(about["covariates"])).astype(np.float64)
        groups["constant_data"] = xr.Dataset(
            {"covariates": (("response", "covariate"), covariates)}, {"covariate": about["covariates"]}
        )
        coords |= {"term": ["intercept", *about["covariates"]], "contrast": list(responses.categories[1:])}
        size = len(coords["term"]) * len(coords["contrast"])
        values = _numbered(columns, "coefficient", size).reshape(*shape, len(coords["term"]), -1)
        variables["coefficient"] = (("chain", "draw", "term", "contrast"), values)
        attributes: dict[str, Any] = {"prior_sd": prior["sd"]}
    else:
        theta = _numbered(columns, "theta", responses.n_categories).reshape(*shape, -1)
        theta /= theta.sum(axis=-1, keepdims=True)  # stored shares are rounded, and do not sum to 1
        variables["theta"] = (("chain", "draw", "category"), theta)
        if "concentration" in columns:
            variables["concentration"] = (("chain", "draw"), columns["concentration"].reshape(shape))
        coords["category"] = list(responses.categories)
        attributes = {"prior_concentration": prior if isinstance(prior, str) else np.array(prior)}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(variables, coords), **groups})
    tree.attrs = {
        "reference": name,
        "group": about["group"],
        **attributes,
        "truth": np.array(about["truth"]),
        **about["certificate"],
    }
    return Reference(responses, tree)


def _numbered(columns: dict[str, NDArray[Any]], name: str, count: int) -> NDArray[Any]:
    """Return the columns name_0, name_1, … as one array, along a last axis."""
    return np.stack([columns[f"{name}_{i}"] for i in range(count)], axis=-1)


def archive_version() -> str:
    """Return the version of the archive. Results are comparable within one version."""
    return str(_content()["version"])


def described() -> dict[str, Any]:
    """Return the description of each reference, by name."""
    return dict(_content()["references"])


@cache
def _content() -> dict[str, Any]:
    try:
        return unseal((ARCHIVE / DESCRIPTION).read_bytes())
    except ValueError as problem:
        raise ValueError(f"the archive of reference posteriors is damaged: {DESCRIPTION} is {problem}") from None


def _responses(about: dict[str, Any]) -> Responses:
    columns = _columns(about["answers"])
    answers = np.stack([columns[name] for name in about["answers"]["columns"]], axis=-1)
    tables: dict[str, Any] = {}
    if "subsets" in about:
        tables = {"subsets": np.array(about["subsets"], dtype=bool), "subset_index": columns["subset"]}
    mechanism = mechanism_from_settings(about["mechanism"])
    flat = answers[:, 0] if not mechanism.answer_dims else answers
    return Responses.from_arrays(mechanism, flat, categories=about["categories"], **tables)


def _columns(file: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the columns of a Parquet file of the archive, or raise ValueError if it is damaged."""
    import pyarrow.parquet as pq

    content = (ARCHIVE / file["file"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise ValueError(f"the archive of reference posteriors is damaged: {file['file']} is not as it was written")
    table = pq.read_table(io.BytesIO(content))
    return {name: table[name].to_numpy() for name in table.column_names}
