"""Words that many people hold, though nobody has listed them: prefixes are extended in rounds, on different people.

In a round, everybody gives one ε-LDP answer to the question which of some prefixes the word begins with, or none of
these. A prefix is kept unless the answers rule out that its share reaches the threshold. The next round asks other
people for the kept prefixes with one letter more. The last round counts the words that are left. Nobody answers twice.

A word that reaches the threshold has prefixes that reach it, too. With R rounds, each of which drops such a prefix with
a probability of at most ``missed``/R, the word is found with a probability of at least 1 − ``missed``, whatever the
shares are. That is why the rule is a test. The posterior under the learned prior treats rare prefixes as empty
(``python -m validation.words`` measures both rules), so it is used for the final estimates only.

Labels are prefixes. ``·`` marks the end of a word, so that "the·" is a word and "the" begins one; the last label,
``…``, stands for everything else. No label is the beginning of another one.
"""

import json
import math
import os
import string
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from adobest_pp._checks import check_count, check_epsilon, check_integer, check_path, check_real
from adobest_pp._files import write_whole
from adobest_pp._text import brief
from adobest_pp._types import Floats, Masks
from adobest_pp.answers.responses import Responses
from adobest_pp.collect.collection import Collection
from adobest_pp.collect.policies import SameQuestion
from adobest_pp.intervals import summary
from adobest_pp.intervals.shares import p_below
from adobest_pp.likelihood.without_prior import direct_of_counts, named
from adobest_pp.mechanisms import Mechanism, PublishedQuestion, build_mechanism, find_mechanism
from adobest_pp.mechanisms.registry import known_mechanism, loads
from adobest_pp.samplers.choice import quick_sample
from adobest_pp.samplers.sampling import fresh_seed

if TYPE_CHECKING:
    import xarray as xr

END, OTHER = "·", "…"
# The first round asks for the longest prefixes that make at most this many candidates.
FIRST_CANDIDATES = 1000
# At most this many times as many prefixes are kept as can reach the threshold.
SPARE = 2
_BYTES = tuple(f"{byte:02x}" for byte in range(256))
_SETTINGS = "search.json"
_HALVINGS = 60


class Round(NamedTuple):
    """A round that has ended: its candidates, their estimated shares, which were kept, and how many people answered."""

    candidates: tuple[str, ...]
    estimate: Floats
    goes_on: Masks
    people: int


def category_of(word: str | bytes, question: PublishedQuestion) -> int:
    """Return the category of a word in a question about prefixes. Runs on the device.

    Parameters
    ----------
    word : str or bytes
        The private word; bytes if the search is for bytes. A word that begins with none of the labels is in the last
        category, even if it is too long or has characters outside of the alphabet: if the device refused it, the
        collector would learn something.
    question : PublishedQuestion
        From `WordSearch.next_question` or `read_question`.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> search = ad.WordSearch.create(epsilon=2.0, n_people=10_000, alphabet="ab", longest=4)
    >>> question = search.next_question()
    >>> question.categories[ad.collect.category_of("abba", question)]
    'abba'
    """
    if not isinstance(word, str | bytes) or not word:
        raise ValueError(f"word must be a text or bytes that are not empty, got {type(word).__name__}")
    spelled = (word.hex() if isinstance(word, bytes) else word) + END
    *labels, _ = question.categories
    # Compare all labels, whatever the word is.
    places = [i for i, label in enumerate(labels) if spelled.startswith(label)]
    return places[0] if places and END not in spelled[:-1] else len(labels)


class WordSearch:
    """A search for the words that many people hold, in rounds on different people. `create` and `open` make one.

    Attributes
    ----------
    rounds : list of Round
        The rounds that have ended.

    See Also
    --------
    simulate_words : The same for simulated people.

    Examples
    --------
    >>> import adobest_pp as ad
    >>> search = ad.WordSearch.create(epsilon=2.0, n_people=20_000, longest=6)
    >>> question = search.next_question()  # the first two letters
    >>> search.record(question.privatize(ad.collect.category_of("secret", question)), question)
    >>> search
    <WordSearch: 1 of 20,000 people, round 1>
    """

    def __init__(self, settings: dict[str, Any], folder: Path | None) -> None:
        self._settings, self._folder = settings, folder
        self._symbols: Sequence[str] = _BYTES if settings["alphabet"] is None else settings["alphabet"]
        self._lengths = _lengths(len(self._symbols), settings)
        self.rounds: list[Round] = []
        self._collections: list[Collection] = []
        self._candidates: tuple[str, ...] = ()
        try:
            self._begin([""])
            self._advance()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str] | None = None,
        *,
        epsilon: float,
        n_people: int,
        alphabet: str | None = string.ascii_lowercase,
        longest: int = 8,
        step: int = 1,
        threshold: float | None = None,
        missed: float = 0.05,
        false: float = 0.05,
        mechanism: str = "subset-selection",
        random_seed: int | None = None,
    ) -> "WordSearch":
        """Begin a search.

        Parameters
        ----------
        folder : path, optional
            A new or empty folder to keep it in, with a collection for each round; by default it is in memory.
        epsilon : float
            The privacy budget of one answer. Everybody answers once.
        n_people : int
            How many people will be asked in all rounds together.
        alphabet : str, optional
            The characters of a word. None for any text, as bytes: then pass bytes to `category_of`.
        longest : int, default 8
            The most characters of a word that can be found. Longer words are not.
        step : int, default 1
            How many characters each round adds. Two halve the rounds, so that each has twice the people, but a
            question lists many more prefixes.
        threshold : float, optional
            Words with at least this share must be found. By default the smallest share for which both error rates hold.
        missed : float, default 0.05
            The largest probability that a given word with this share is missed.
        false : float, default 0.05
            The largest expected number of found words that nobody holds.
        mechanism : str
            What the devices run, by its name.
        random_seed : int, optional
            Seed of the final estimate. It plays no part in anyone's privacy.
        """
        given = {"epsilon": epsilon, "n_people": n_people, "alphabet": alphabet, "longest": longest, "step": step}
        given |= {"missed": missed, "false": false, "mechanism": mechanism, "random_seed": random_seed}
        found = find_mechanism(mechanism)
        if known_mechanism(mechanism) is None:  # such as ``module:Class``, so that `open` needs no import
            given["mechanism"] = found.__name__
        settings = _checked(given)
        least = smallest_threshold(settings)
        settings["threshold"] = least if threshold is None else check_real(
            threshold, "threshold", f"a share of at least {least:.3g}, the smallest for which {settings['n_people']:,} "
            f"people at ε = {settings['epsilon']:g} keep both error rates, and below 1", lambda x: least <= x < 1
        )  # fmt: skip
        place = None if folder is None else check_path(folder, "folder")
        if place is not None:
            if place.exists() and not (place.is_dir() and next(place.iterdir(), None) is None):
                raise FileExistsError(
                    f"folder must be new or empty, got {str(place)!r}: to resume the search in it, call WordSearch.open"
                )
            place.mkdir(parents=True, exist_ok=True)
            write_whole(place / _SETTINGS, json.dumps(settings, indent=2).encode(), overwrite=False)
        return cls(settings, place)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "WordSearch":
        """Resume a search in a folder as if it had never stopped.

        Parameters
        ----------
        folder : path
            The folder of `create`.
        """
        place = check_path(folder, "folder")
        try:
            found = loads((place / _SETTINGS).read_bytes())
            settings = _checked(found) | {"threshold": _check_share(found["threshold"], "threshold")}
        except KeyError as missing:
            raise ValueError(f"folder must be that of a search, got {str(folder)!r}, without {missing}") from None
        except (OSError, ValueError, TypeError) as reason:
            raise ValueError(f"folder must be that of a search, got {str(folder)!r}: {reason}") from None
        return cls(settings, place)

    @property
    def threshold(self) -> float:
        """The share that a word must have to be found."""
        return float(self._settings["threshold"])

    @property
    def n_rounds(self) -> int:
        """The largest number of rounds, with the last one, which counts the words that are left."""
        return len(self._lengths) + 1

    @property
    def is_last(self) -> bool:
        """Whether the present round is the last."""
        return all(label.endswith(END) for label in self._candidates)

    @property
    def left(self) -> int:
        """The number of people who remain to be asked in the present round."""
        self._advance()
        if not self._candidates:
            return 0
        asked = sum(each.people for each in self.rounds)
        size = self._settings["n_people"] - asked if self.is_last else self._round_size
        return max(size - len(self._collections[-1]), 0)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the search."""
        return dict(self._settings)

    def __repr__(self) -> str:
        people = sum(map(len, self._collections))
        return f"<WordSearch: {people:,} of {self._settings['n_people']:,} people, round {len(self._collections)}>"

    def next_question(self) -> PublishedQuestion:
        """Return the question to publish to the next person, which lists the prefixes of the present round.

        It stays the same until the answers of the round have come in. A device finds the category of its word by
        `category_of`. Raise ValueError if no prefix is left.
        """
        self._advance()
        if not self._candidates:
            raise ValueError("search must have prefixes to ask for, got none that reaches the threshold: it has ended")
        return self._collections[-1].next_question()

    def record(self, answer: ArrayLike, question: PublishedQuestion) -> None:
        """Record one answer, or several to one question. Bad input changes nothing.

        Parameters
        ----------
        answer : int or array of int
            What ``question.privatize`` returned.
        question : PublishedQuestion
            The question that was answered. Answers to a round that has ended are kept, but have no effect.
        """
        for collection in reversed(self._collections):
            if isinstance(question, PublishedQuestion) and question.categories == collection.categories:
                collection.record(answer)
                return
        raise ValueError(f"question must be one of this search, got {brief(question)}")

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are found: those of the last round whose share may reach the threshold, largest first."""
        if not self._candidates:
            return ()
        responses = self.responses
        estimate, goes_on = self._judge(responses)
        order = np.argsort(-estimate, kind="stable")
        return tuple(responses.categories[i] for i in order if goes_on[i])

    @property
    def responses(self) -> Responses:
        """The answers of the last round, by word and all others (``…``), for `sample` and reports."""
        self._advance()
        if not self.is_last or not self._candidates or not len(self._collections[-1]):
            raise ValueError(f"search must have answers in its last round, got {self!r}")
        labels = [label.removesuffix(END) for label in self._candidates]
        if self._settings["alphabet"] is None:
            labels = [_text_of(label) for label in labels]
        found = self._collections[-1].responses
        return Responses.from_arrays(found.mechanism, found.answers, categories=[*labels, OTHER])

    def estimate(self, draws: int = 1000) -> "xr.Dataset":
        """Return the words that are found, with their shares: mean and 95 % interval (`intervals.summary`).

        Parameters
        ----------
        draws : int
            Draws of each of four chains of the posterior, given the answers of the last round.
        """
        words, seed = list(self.words), self._settings["random_seed"]
        tree = quick_sample(self.responses, "learned", draws, fresh_seed() if seed is None else seed)
        found = summary(tree).sel(category=words).rename(category="word")
        stated = {name: self._settings[name] for name in ("threshold", "missed", "false", "epsilon", "n_people")}
        return found.assign_attrs(stated | {"rounds": len(self._collections)})

    def close(self) -> None:
        """Close the files of all rounds."""
        for collection in self._collections:
            collection.close()

    @property
    def _round_size(self) -> int:
        return int(self._settings["n_people"]) // self.n_rounds

    def _advance(self) -> None:
        """End rounds whose answers are in, and begin the next ones."""
        while not self.is_last and len(self._collections[-1]) >= self._round_size:
            # Only the first answers count, so that neither late ones nor opening the folder again change the result.
            held = self._collections[-1].responses
            responses = Responses.from_arrays(held.mechanism, held.answers[: self._round_size])
            estimate, goes_on = self._judge(responses)
            self.rounds.append(Round(self._candidates, estimate, goes_on, len(responses)))
            self._begin([self._candidates[i] for i in np.flatnonzero(goes_on)])

    def _judge(self, responses: Responses) -> tuple[Floats, Masks]:
        """Return the estimate of each candidate, and whether its share may reach the threshold."""
        direct = direct_of_counts(named(responses.evidence()), len(responses), responses.mechanism)
        assert direct is not None
        estimate = direct.estimate[:-1]
        goes_on = p_below(direct, self.threshold)[:-1] > self._settings["missed"] / self.n_rounds
        goes_on[np.argsort(-estimate, kind="stable")[math.ceil(SPARE / self.threshold) :]] = False
        return estimate, goes_on

    def _begin(self, kept: list[str]) -> None:
        """Begin the round after one in which these prefixes were kept: with the collection in the folder, or a new one.

        If none is left, the search has ended.
        """
        self._candidates = self._extended(kept)
        if not self._candidates:
            return
        path = None if self._folder is None else self._folder / f"round-{len(self._collections) + 1}.db"
        labels = [*self._candidates, OTHER]
        if path is None or not path.exists():
            policy = SameQuestion(_mechanism(self._settings, len(labels)))
            self._collections.append(Collection.create(path, policy=policy, categories=labels, random_seed=0))
            return
        found = Collection.open(path)
        self._collections.append(found)
        if list(found.categories) != labels:
            raise ValueError(f"folder must be that of one search, got other prefixes than expected in {str(path)!r}")

    def _extended(self, kept: list[str]) -> tuple[str, ...]:
        """Return the candidates of a round: whole words stay as they are, others get more letters or their end.

        After the longest prefixes, only whole words are candidates.
        """
        number = len(self.rounds)
        if number == len(self._lengths):
            return tuple(label.removesuffix(END) + END for label in kept)
        growing = kept
        for _ in range(self._lengths[number] - (self._lengths[number - 1] if number else 0)):
            ended = [label for label in growing if label.endswith(END)]
            growing = [label for label in growing if not label.endswith(END)]
            ended += [label + END for label in growing if label]
            growing = [*ended, *(label + symbol for label in growing for symbol in self._symbols)]
        return tuple(sorted(growing))


def _text_of(label: str) -> str:
    """Return the text that bytes stand for, or the bytes themselves if they are not printable text."""
    text = bytes.fromhex(label).decode("utf-8", "backslashreplace")
    return text if text.isprintable() and "\\" not in text else f"0x{label}"


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a search without its threshold, or raise ValueError; a missing one raises KeyError."""
    seed, mechanism = given["random_seed"], given["mechanism"]
    if known_mechanism(mechanism) is None:
        raise ValueError(f"mechanism must be part of adobest_pp or registered, got {brief(mechanism)}")
    return {
        "epsilon": check_epsilon(given["epsilon"]),
        "n_people": check_count(given["n_people"], "n_people"),
        "alphabet": check_alphabet(given["alphabet"]),
        "longest": check_integer(given["longest"], "longest", 1, 1000),
        "step": check_integer(given["step"], "step", 1, 8),
        "missed": _check_share(given["missed"], "missed"),
        "false": _check_share(given["false"], "false"),
        "mechanism": mechanism,
        "random_seed": None if seed is None else check_integer(seed, "random_seed", 0, 2**63 - 1),
    }


def _check_share(value: Any, name: str) -> float:
    return check_real(value, name, "a number between 0 and 1", lambda share: 0 < share < 1)


def check_alphabet(alphabet: Any) -> str | None:
    """Return distinct characters, or None for bytes, or raise ValueError."""
    if alphabet is None:
        return None
    allowed = f"alphabet must be at least two distinct printable characters other than {END} and {OTHER}, or None"
    symbols = {*alphabet} if isinstance(alphabet, str) and alphabet.isprintable() else set()
    if len(symbols) < 2 or len(symbols) < len(alphabet) or {END, OTHER} & symbols:
        raise ValueError(f"{allowed}, got {brief(alphabet)}")
    return str(alphabet)


def smallest_threshold(settings: dict[str, Any]) -> float:
    """Return the smallest share for which a search with these settings keeps both error rates.

    A round drops a prefix with this share with a probability of at most ``missed`` over the number of rounds. It keeps
    one that nobody holds with a probability of at most ``false`` over the number of candidates.
    """
    symbols = 256 if settings["alphabet"] is None else len(settings["alphabet"])
    lengths = _lengths(symbols, settings)
    n_rounds = len(lengths) + 1
    n = settings["n_people"] // n_rounds
    if n < 1:
        raise ValueError(f"n_people must be at least {n_rounds}, the number of rounds, got {settings['n_people']}")

    def suffices(share: float) -> bool:
        k = max((symbols + 1) ** lengths[0], math.ceil(SPARE / share) * (symbols + 1) ** settings["step"]) + 1
        naming = _mechanism(settings, k).naming()
        assert naming is not None
        truth, other = naming
        fewest = binom.ppf(settings["missed"] / n_rounds, n, other + (truth - other) * share)
        return bool(binom.sf(fewest - 1, n, other) <= settings["false"] / k)

    low, high = math.log(1e-6), 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(math.exp(middle)) else (middle, high)
    if high == 0.0:
        raise ValueError(
            f"n_people must be enough to find any word in {n_rounds} rounds at ε = {settings['epsilon']:g}, got "
            f"{settings['n_people']:,}"
        )
    return math.exp(high)


def _mechanism(settings: dict[str, Any], k: int) -> Mechanism:
    made = build_mechanism(settings["mechanism"], n_categories=k, epsilon=settings["epsilon"])
    if made.naming() is None:
        raise ValueError(f"mechanism must treat all categories alike, such as subset-selection, got {made!r}")
    return made


def _lengths(symbols: int, settings: dict[str, Any]) -> list[int]:
    """Return the length of the prefixes of each round but the last."""
    first, longest = int(math.log(FIRST_CANDIDATES) / math.log(symbols + 1)), settings["longest"]
    first = min(max(first, settings["step"]), longest)
    return [*range(first, longest, settings["step"]), longest]
