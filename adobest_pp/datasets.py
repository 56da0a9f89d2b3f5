"""Real answers of real people to practice with: labeled data sets from other packages.

Each function returns a pandas DataFrame with one row per person. The column to ask about is categorical; ``attrs`` has
its name, the question, the source and the license. Nothing is downloaded: the data come with the packages of the extra
``datasets``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

__all__ = ["anes96", "birth_states"]

PARTIES = (
    "strong Democrat",
    "weak Democrat",
    "leans Democrat",
    "independent",
    "leans Republican",
    "weak Republican",
    "strong Republican",
)
EDUCATION = ("grades 1-8", "some high school", "high school", "some college", "college", "master's degree", "PhD")
VOTES = ("Clinton", "Dole")


def anes96() -> "pd.DataFrame":
    """Return the party identification of 944 voters in the American National Election Study of 1996.

    Returns
    -------
    pandas.DataFrame
        A row for each person: ``party`` (seven ordered categories, the question to ask privately), ``vote`` (Clinton or
        Dole), ``education`` (seven ordered categories), ``age`` in years, ``income`` (a bracket, 1 … 24),
        ``population`` of the place in thousands, ``tv_news`` (days a week) and ``left_right`` (own position, 1 … 7).

    Notes
    -----
    The data are in the public domain. They ship with statsmodels as ``statsmodels.datasets.anes96``, which also defines
    the labels of education.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> people = ad.datasets.anes96()
    >>> people["party"].value_counts()["independent"]
    np.int64(37)
    """
    import pandas as pd

    raw = _data_of("statsmodels.datasets.anes96", "anes96", "statsmodels")
    people = pd.DataFrame(
        {
            "party": _labelled(raw["PID"].astype(int), PARTIES),
            "vote": _labelled(raw["vote"].astype(int), VOTES),
            "education": _labelled(raw["educ"].astype(int) - 1, EDUCATION),
            "age": raw["age"].astype(int),
            "income": raw["income"].astype(int),
            "population": raw["popul"],
            "tv_news": raw["TVnews"].astype(int),
            "left_right": raw["selfLR"].astype(int),
        }
    )
    return _described(
        people,
        column="party",
        question="Which party do you feel close to?",
        source="American National Election Study 1996, from statsmodels",
        license="public domain",
    )


def birth_states() -> "pd.DataFrame":
    """Return the state of birth of 214 144 men in the United States: a question with 52 categories.

    Returns
    -------
    pandas.DataFrame
        A row for each man: ``state`` (the question to ask privately, with 52 categories: the states, the District of
        Columbia and "not stated"), ``veteran`` (of the Second World War or of Korea) and ``owns_home``.

    Notes
    -----
    The data of [1]_ ship with causaldata, under the MIT license, as ``causaldata.mortgages``.

    References
    ----------
    .. [1] D. K. Fetter (2013), How do mortgage subsidies affect home ownership? Evidence from the mid-century GI bills,
       American Economic Journal: Economic Policy 5(2).

    Examples
    --------
    >>> import adobest_pp as ad
    >>> people = ad.datasets.birth_states()
    >>> len(people), people["state"].cat.categories.size
    (214144, 52)
    """
    import pandas as pd

    raw = _data_of("causaldata.mortgages", "birth_states", "causaldata")
    names = raw["bpl"].astype(object).replace("United States, ns", "not stated")
    states = sorted(set(names) - {"not stated"})
    people = pd.DataFrame(
        {
            "state": pd.Categorical(names, [*states, "not stated"]),
            "veteran": raw["vet_wwko"].astype(bool),
            "owns_home": raw["home_ownership"].astype(bool),
        }
    )
    return _described(
        people,
        column="state",
        question="In which state were you born?",
        source="Fetter (2013), from causaldata",
        license="MIT",
    )


def _data_of(module: str, function: str, package: str) -> Any:
    """Return the table of a module, or raise ImportError with what to install."""
    try:
        return import_module(module).load_pandas().data
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"{function} needs the package {package}, which is not installed: pip install 'adobest-pp[datasets]'"
        ) from missing


def _labelled(codes: Any, labels: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.Categorical.from_codes(codes, list(labels), ordered=True)


def _described(people: "pd.DataFrame", **attributes: str) -> "pd.DataFrame":
    people.index.name = "person"
    people.attrs.update(attributes)
    return people
