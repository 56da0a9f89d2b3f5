"""What a person's device keeps: the total ε that the person agreed to, and what each question has cost.

The budgets of all answers of a person add up, whatever the questions. So the device itself keeps track, and refuses
any question that would cost more than what is left. It answers each question once. If it is asked again, it sends the
same answer again, which reveals nothing new. A memoized question (`Memoized`) costs its ε once for all waves.

The file contains the names and costs of the questions and the randomized answers, which the collector has, too. It
never contains x. For a memoized question, it contains one permanent answer for every category, drawn before the device
looks at x. Somebody who obtains only this file learns no more than the collector. With a memoized question, somebody
who obtains both the file and the answers that were sent learns more, so keep the file where the person's own data are
kept. With an old copy of the file, the device could spend again what it has spent since.

This is the person's account, on one device. The ledger of `adobest collect` is the collector's, about a file of people.
"""

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adobest_pp._checks import check_integer, check_path, check_private, check_real
from adobest_pp._files import json_digest, locked_folder, replacing, seal, unseal
from adobest_pp._text import brief
from adobest_pp.mechanisms.base import Mechanism
from adobest_pp.mechanisms.memoized import Memoized
from adobest_pp.mechanisms.published_question import PublishedQuestion
from adobest_pp.mechanisms.registry import loads
from adobest_pp.mechanisms.ticks import Ticks

SCHEMA = "adobest_pp.allowance"
_LARGEST = 16_000_000
# Sums of decimal fractions, such as ten times 0.1, are rounded. An excess below this share of the allowance counts as
# rounding.
ROUNDING = 1e-12


class Overspent(ValueError):
    """A question costs more than what is left of an allowance. Nothing was answered."""


class Allowance:
    """The total ε that a person has agreed to, kept by the person's device, which refuses to spend more.

    Create one with `create`, and open it again with `open`.

    Attributes
    ----------
    path : Path
        The file. Every change is on disk before an answer is returned.
    epsilon : float
        What the person agreed to.

    Examples
    --------
    >>> import tempfile, adobest_pp as ad
    >>> allowance = ad.Allowance.create(f"{tempfile.mkdtemp()}/allowance.json", epsilon=1.5)
    >>> answer = allowance.answer("drinking", ad.SRR(3, epsilon=1.0), 2)
    >>> allowance.answer("drinking", ad.SRR(3, epsilon=1.0), 2) == answer, allowance.left
    (True, 0.5)
    >>> allowance.answer("smoking", ad.SRR(3, epsilon=1.0), 0)
    Traceback (most recent call last):
    adobest_pp.mechanisms.allowance.Overspent: question 'smoking' must cost at most 0.5, which is left of ε = 1.5, got 1
    """

    def __init__(self, path: Path, epsilon: float, entries: dict[str, dict[str, Any]]) -> None:
        self.path, self.epsilon, self._entries = path, epsilon, entries

    @classmethod
    def create(cls, path: str | os.PathLike[str], epsilon: float) -> Self:
        """Begin an account in a new file, or raise FileExistsError.

        Parameters
        ----------
        path : path
            The file to write.
        epsilon : float
            The total that the person agrees to, above 0.
        """
        total = check_real(epsilon, "epsilon", "a finite number above 0", lambda x: 0 < x < math.inf)
        made = cls(Path(os.path.realpath(check_path(path))), total, {})
        made._write(overwrite=False)
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open an account. If its file is damaged, raise ValueError; the device must not answer then."""
        where = Path(os.path.realpath(check_path(path)))
        epsilon, entries = _read(where)
        return cls(where, epsilon, entries)

    @property
    def spent(self) -> dict[str, float]:
        """The ε that each question has cost, by name."""
        return {name: entry["epsilon"] for name, entry in self._entries.items()}

    @property
    def left(self) -> float:
        """What is left of the allowance."""
        return max(0.0, self.epsilon - math.fsum(self.spent.values()))

    def __repr__(self) -> str:
        return f"<Allowance: ε = {self.epsilon:g}, {self.left:g} left after {len(self._entries)} questions>"

    def answer(
        self,
        name: str,
        question: Mechanism | Ticks | PublishedQuestion,
        x: ArrayLike,
        *,
        wave: int = 0,
        changes: int = 0,
    ) -> Any:
        """Return the answer of the person to a question, from the operating system's entropy.

        Parameters
        ----------
        name : str
            The name of the question in this account. A question that was answered before gets the same answer again,
            at no cost, whatever x is now.
        question : Mechanism, Ticks, or PublishedQuestion from `read_question`
            What is asked. A published subset comes with a PublishedQuestion.
        x : int
            The person's category; for `Ticks`, the row of ticks.
        wave : int, default 0
            For `Memoized`: which wave this is, from 0.
        changes : int, default 0
            For `Memoized`: in how many waves the person's category may differ from that in the others. The cost covers
            that many. Everybody is charged the same, at the first wave: a later charge would reveal who changed.

        Returns
        -------
        int or list of int
            What to send; for `Memoized`, the number of this wave. It is on disk before it is returned.

        Raises
        ------
        Overspent
            If the question costs more than what is left.
        """
        mechanism: Any = question.mechanism if isinstance(question, PublishedQuestion) else question
        label = _check_name(name)
        is_row, is_memoized = isinstance(mechanism, Ticks), isinstance(mechanism, Memoized)
        if not (is_row or isinstance(mechanism, Mechanism)):
            raise ValueError(f"question must be a mechanism or a published question, got {brief(question)}")
        number = str(check_integer(wave, "wave", 0, mechanism.n_waves - 1 if is_memoized else 0))
        times = check_integer(changes, "changes", 0, mechanism.n_waves if is_memoized else 0)
        checked = mechanism._check_private(x) if is_row else check_private(x, mechanism.n_categories)
        if checked.ndim != is_row:  # the answers of several rows would cost several times ε
            raise ValueError("x must be that of one person, got several (their values are not shown)")
        subset = question.subset if isinstance(question, PublishedQuestion) else None
        asked = json_digest([mechanism.settings(), subset, times])
        cost = mechanism.epsilon_of_changes(times) if is_memoized else mechanism.epsilon
        with self._locked():
            entry = self._entries.get(label)
            if entry is None:
                self._check_cost(label, cost)
                entry = {"epsilon": cost, "asked": asked, "answers": {}}
                if is_memoized:
                    entry["permanent"] = mechanism.permanent_answers().tolist()
            if entry["asked"] != asked:
                raise ValueError(f"question {brief(label)} must be as it was asked before, got other settings")
            if number not in entry["answers"]:
                given = _draw(mechanism, question, x, entry.get("permanent"))
                entry = entry | {"answers": entry["answers"] | {number: given}}
                before, self._entries = self._entries, self._entries | {label: entry}
                try:
                    self._write(overwrite=True)
                except BaseException:
                    self._entries = before
                    raise
            return entry["answers"][number]

    def _check_cost(self, label: str, cost: float) -> None:
        if math.fsum([*self.spent.values(), cost]) > self.epsilon * (1 + ROUNDING):
            raise Overspent(
                f"question {brief(label)} must cost at most {self.left:g}, which is left of ε = {self.epsilon:g}, "
                f"got {cost:g}"
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock out other processes, and read what they have spent."""
        with locked_folder(self.path.parent):
            self.epsilon, self._entries = _read(self.path)
            yield

    def _write(self, *, overwrite: bool) -> None:
        content = {"schema": SCHEMA, "epsilon": self.epsilon, "questions": self._entries}
        with replacing(self.path, overwrite=overwrite) as temporary:
            os.chmod(temporary, 0o600)
            temporary.write_bytes(seal(content))


def _draw(mechanism: Any, question: Any, x: ArrayLike, permanent: list[int] | None) -> Any:
    if permanent is None:
        answer = question.privatize(x)
        return answer.tolist() if hasattr(answer, "tolist") else answer
    # Every permanent answer is read, so that the work does not depend on x.
    own = np.sum(np.array(permanent) * (np.arange(len(permanent)) == x))
    return int(mechanism.instantaneous.privatize(own))


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise ValueError(f"name must be a text of 1 to 200 characters, got {brief(name)}")
    return name


def _read(path: Path) -> tuple[float, dict[str, dict[str, Any]]]:
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError
            content = unseal(file.read(_LARGEST), loads)
        if content["schema"] != SCHEMA:
            raise ValueError
        entries = content["questions"]
        if not all(float(entry["epsilon"]) >= 0 and isinstance(entry["answers"], dict) for entry in entries.values()):
            raise ValueError
        return float(content["epsilon"]), entries
    except FileNotFoundError:
        raise FileNotFoundError(f"path must name a file that Allowance.create wrote, got {str(path)!r}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, IsADirectoryError, json.JSONDecodeError):
        raise ValueError(
            f"path must name a whole file that Allowance.create wrote, got {str(path)!r}: what was spent is not known, "
            "so nothing must be answered"
        ) from None
