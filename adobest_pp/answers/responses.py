"""What the collector holds: the mechanism, the category labels, the answers and the published subsets. Never x."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adobest_pp._checks import as_numbers, check_path, check_subset
from adobest_pp._files import check_target, netcdf_bytes, replacing, write_whole
from adobest_pp._text import brief, by_column, by_label, check_labels, labels_as_codes, number_among
from adobest_pp.evidence import Evidence, unique_rows
from adobest_pp.mechanisms import Counts, Mechanism, Published, mechanism_from_settings
from adobest_pp.mechanisms.registry import loads

if TYPE_CHECKING:
    import xarray as xr

SCHEMA = "adobest_pp.responses"
SCHEMA_VERSION = 2


class Responses:
    """Randomized answers to one question, with what is needed to interpret them.

    Parameters
    ----------
    mechanism : Mechanism
        What the devices ran.
    categories : sequence of K labels, optional
        Category names; ``"0"``, ``"1"``, … by default.

    See Also
    --------
    Responses.from_arrays : Build a whole data set at once.
    Responses.evidence : The collapsed form that likelihood and samplers use.

    Examples
    --------
    >>> from adobest_pp import RRRR, Responses
    >>> responses = Responses(RRRR(3, epsilon=1.0), categories=["yes", "no", "unsure"])
    >>> responses.append([0, 2], subset=[0])
    >>> responses.append(1, subset=[0, 1])
    >>> responses
    <Responses: 3 answers, 2 distinct subsets, RRRR(n_categories=3, epsilon=1.0, kappa=0.9)>
    >>> responses.evidence()
    <Evidence: 3 responses in 3 rows with 1 sets>
    """

    def __init__(self, mechanism: Mechanism, categories: Sequence[Any] | None = None) -> None:
        self._mechanism = check_mechanism(mechanism)
        self._categories = check_labels(categories, mechanism.n_categories)
        self._answers = Column(tuple(mechanism.answer_dims.values()), mechanism.answer_type)
        self._set_index = Column((), np.dtype(np.int32))
        self._sets = Column((mechanism.n_categories,), np.dtype(bool))
        self._set_places: dict[bytes, int] = {}
        # How many answers count. It is set last: an interrupted call leaves it as it was.
        self._n = 0

    @classmethod
    def from_arrays(
        cls,
        mechanism: Mechanism,
        answers: ArrayLike,
        subsets: ArrayLike | None = None,
        subset_index: ArrayLike | None = None,
        categories: Sequence[Any] | None = None,
    ) -> "Responses":
        """Build from whole arrays.

        Parameters
        ----------
        mechanism : Mechanism
            What the devices ran.
        answers : array of int, or labels
            What the mechanism's `privatize` returns for n people, one row a person: of shape (n,) if an answer is one
            number; (n, d) increasing members for subset selection; a 0/1 matrix (n, K) for unary encoding, aligned by
            label if its columns have labels; (n, 2) seeds and values for local hashing. SRR and RRRR also take labels
            of categories as text, in a list, an array, a pandas Series or Categorical, or a DataArray; subset selection
            takes rows of d labels in any order. Integers are codes, even if the labels are numbers. Integers of pandas
            are then refused, because they may be labels.
        subsets : array, optional
            The published subsets, for RRRR only: one subset for all answers (indices or mask), or boolean masks (V, K).
            A mask with labels, of xarray or pandas, is aligned with the categories.
        subset_index : array of int, shape (n,), optional
            Which row of `subsets` was published for each answer. Without it, `subsets` has one row per answer.
        categories : sequence of K labels, optional
            Category names.

        Examples
        --------
        >>> from adobest_pp import SRR, Responses
        >>> Responses.from_arrays(SRR(2, epsilon=1.0), ["yes", "no", "yes"], categories=["no", "yes"]).answers.tolist()
        [1, 0, 1]
        """
        responses = cls(mechanism, categories)
        checked = checked_answers(mechanism, responses.categories, _as_codes(mechanism, responses.categories, answers))
        if subset_index is None and (subsets is None or _ndim(subsets) < 2):
            responses.append(checked, subset=subsets)
            return responses
        if not mechanism.publishes_subset:
            raise ValueError(f"subsets must be left out for {type(mechanism).__name__}, which publishes none")
        masks, index = _check_subset_table(subsets, subset_index, len(checked), responses.categories)
        # Order subsets by first use, and leave out those that are never used.
        first = np.full(len(masks), len(index))
        first[index[::-1]] = np.arange(len(index) - 1, -1, -1)
        order = np.argsort(first)[: np.count_nonzero(first < len(index))]
        places = np.empty(len(masks), dtype=np.int64)
        places[order] = responses._intern(masks[order])
        responses._store(checked, places[index])
        return responses

    def append(self, answers: ArrayLike, subset: ArrayLike | None = None) -> None:
        """Add one answer, or several to one published subset. Bad input changes nothing.

        Parameters
        ----------
        answers : int, label, or array of them
            As the mechanism's `privatize` returns them, or labels as in `from_arrays`.
        subset : indices or boolean mask, optional
            The published subset: required if the mechanism publishes one, and not allowed otherwise.
        """
        codes = _as_codes(self.mechanism, self.categories, answers)
        checked = checked_answers(self.mechanism, self.categories, codes)
        name = type(self.mechanism).__name__
        if not self.mechanism.publishes_subset:
            if subset is not None:
                raise ValueError(f"subset must be left out for {name}, got {brief(subset)}")
            self._store(checked, None)
            return
        if subset is None:
            raise ValueError(f"subset must be the one published to these people ({name} needs it), got None")
        masks = check_subset(subset, self.n_categories, self.categories)[None]
        self._store(checked, np.repeat(self._intern(masks if len(checked) else masks[:0]), len(checked)))

    @property
    def mechanism(self) -> Mechanism:
        """What the devices ran."""
        return self._mechanism

    @property
    def categories(self) -> tuple[str, ...]:
        """The category labels."""
        return self._categories

    @property
    def n_categories(self) -> int:
        """The number of categories K."""
        return self.mechanism.n_categories

    @property
    def answers(self) -> NDArray[np.int64]:
        """The answers, one row for each person; of shape (n,) if an answer is one number."""
        stored = self._answers.first(self._n)
        return stored.astype(np.int64) if stored.ndim == 1 else stored.copy()

    @property
    def subsets(self) -> NDArray[np.bool_]:
        """The distinct published subsets as masks of shape (V, K), in order of first use."""
        return np.array(self._published().subsets)

    @property
    def subset_index(self) -> NDArray[np.int64]:
        """The row of `subsets` that was published for each answer, of shape (n,); empty without subsets."""
        return np.array(self._published().row)

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """The privacy budget of each person, of shape (n,)."""
        return self.mechanism.budgets(self._answers.first(self._n))

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        subsets = f", {len(self._set_places)} distinct subsets" if self.mechanism.publishes_subset else ""
        return f"<Responses: {len(self)} answers{subsets}, {self.mechanism!r}>"

    def evidence(self) -> Evidence:
        """Collapse to distinct rows with counts; the order of the answers does not matter."""
        return self.evidence_and_index()[0]

    def evidence_index(self) -> NDArray[np.int64]:
        """Return the row of `evidence` that each response belongs to, of shape (n,)."""
        return self.evidence_and_index()[1]

    def evidence_and_index(self) -> tuple[Evidence, NDArray[np.int64]]:
        """Return `evidence` and `evidence_index` from one pass over the answers."""
        return self.mechanism.evidence(self._answers.first(self._n), self.published())

    def published(self) -> Published:
        """Return what was published to each person; see `Mechanism.published_with`."""
        return self.mechanism.published_with(self._answers.first(self._n), self._published())

    def answer_counts(self, theta: NDArray[np.float64], listed: NDArray[np.int64]) -> Counts | None:
        """Return the mechanism's counts of these answers; see `Mechanism.answer_counts`."""
        answers = self._answers.first(self._n)
        return self.mechanism.answer_counts(answers, self.published(), theta, listed)

    def information(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Fisher information of θ in all answers, of shape (K, K); see `Mechanism.information`."""
        return self.mechanism.total_information(self._answers.first(self._n), self.published(), theta)

    def to_xarray(self) -> "xr.Dataset":
        """Return a labeled dataset, from which `from_xarray` rebuilds the responses.

        Answers and subsets refer to the coordinates ``category_code`` and ``subset_code``. So you may sort the dataset
        along any dimension, and leave out responses, before you pass it to `from_xarray`.
        """
        import xarray as xr

        dims = ("response", *self.mechanism.answer_dims)
        variables: dict[str, Any] = {
            "answer": (dims, self._answers.first(self._n).copy(), {"long_name": "randomized answer"})
        }
        codes: dict[str, Any] = {"category_code": ("category", np.arange(self.n_categories, dtype=np.int32))}
        if self.mechanism.publishes_subset:
            masks = (("subset", "category"), self.subsets, {"long_name": "whether a subset holds a category"})
            about = {"long_name": "subset published to the person, code of subset"}
            index = ("response", self.subset_index.astype(np.int32), about)
            codes["subset_code"] = ("subset", np.arange(len(self.subsets), dtype=np.int32))
            variables |= {"subset_mask": masks, "subset_index": index}
        settings = self.mechanism.settings()
        attributes = {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "mechanism_settings": json.dumps(settings),
            **{name: value for name, value in settings.items() if isinstance(value, str | int | float)},
        }
        return xr.Dataset(variables, coords={"category": list(self.categories), **codes}, attrs=attributes)

    @classmethod
    def from_xarray(cls, dataset: "xr.Dataset") -> "Responses":
        """Rebuild from the dataset of `to_xarray`, even if its categories, subsets or responses were sorted.

        Raise ValueError if a category is missing, or a subset that was published for an answer: the other answers
        would change their meaning.
        """
        mechanism = _check_schema(dataset)
        category = inverse(dataset, "category", mechanism.n_categories)
        labels = dataset["category"].values[category].tolist()
        answers = variable(dataset, "answer", ("response", *mechanism.answer_dims))
        if "category" in mechanism.answer_dims:
            answers = answers[:, category]
        tables: dict[str, Any] = {}
        if mechanism.publishes_subset:
            masks = variable(dataset, "subset_mask", ("subset", "category"))
            if not np.isin(masks, (0, 1)).all():
                raise ValueError("the variable 'subset_mask' must be 0 or 1 everywhere")
            index = variable(dataset, "subset_index", ("response",))
            tables = {"subsets": masks[:, category] == 1, "subset_index": subset_positions(dataset, index)}
        return cls.from_arrays(mechanism, answers, categories=labels, **tables)

    def to_netcdf(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write a netCDF file that xarray opens, whole or not at all. Its last line is its SHA-256.

        Parameters
        ----------
        path : path
            A new file.
        overwrite : bool, default False
            Whether to replace an existing file; never one that a `Collection` has open.
        """
        check_target(path, overwrite=overwrite)
        write_whole(path, netcdf_bytes(self.to_xarray()), overwrite=overwrite)

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str]) -> "Responses":
        """Read a file of `to_netcdf`, or raise ValueError if it is damaged, newer or another kind of file.

        It also reads a dataset of `to_xarray` that xarray wrote. That has no checksum, so damage may go unnoticed.
        """
        from adobest_pp.answers.netcdf import dataset_of, opened

        with opened(path, "a response file written by Responses.to_netcdf") as groups:
            dataset = dataset_of(groups["/"])
        name = os.fspath(path)
        try:
            return cls.from_xarray(dataset)
        except KeyError as missing:
            raise ValueError(f"path must name a response file, got {name!r}, which has no {missing}") from None
        except (TypeError, ValueError, RecursionError) as reason:
            raise ValueError(f"path must name a response file, got {name!r}: {reason}") from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Responses":
        """Read the file of a `Collection`, even while answers come in, or a file of `to_netcdf`.

        Raise ValueError if it is damaged, newer or another kind of file.
        """
        from adobest_pp.answers.store import is_collection, read_collection

        return read_collection(path)[0] if is_collection(check_path(path)) else cls.from_netcdf(path)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        overwrite: bool = False,
        public: Mapping[str, Sequence[str | int]] | None = None,
    ) -> None:
        """Write a Parquet file of the answers, one row a person, whole or not at all. `gather` reads it.

        Parameters
        ----------
        path : path
            A new file; `gather` recognizes the ending ``.parquet``.
        overwrite : bool, default False
            Whether to replace an existing file.
        public : mapping of columns, optional
            What is known of the people beside their answers, in the same order, as ``Collection.public.answered``.

        Notes
        -----
        `adobest_pp.answers.gather.tables` describes the columns. The metadata of the schema has the mechanism and the
        categories, and that of the file its SHA-256, which `gather` checks.
        """
        import pyarrow.parquet as pq

        from adobest_pp.answers.gather.pieces import PLACEHOLDER, add_checksum
        from adobest_pp.answers.gather.tables import ROWS_OF_A_GROUP, table_of

        with replacing(check_path(path), overwrite=overwrite) as temporary:
            table = table_of(self, public)
            with pq.ParquetWriter(temporary, table.schema, compression="zstd", write_page_checksum=True) as writer:
                writer.write_table(table, row_group_size=ROWS_OF_A_GROUP)
                writer.add_key_value_metadata(PLACEHOLDER)
            add_checksum(temporary)

    def _intern(self, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the place of each mask in the table of distinct sets, to which new ones are added in order."""
        packed = np.packbits(masks, axis=1)
        first, place = unique_rows(packed)
        distinct, keys = masks[first], [row.tobytes() for row in packed[first]]
        for i in np.argsort(np.unique(place, return_index=True)[1]):
            if keys[i] not in self._set_places:
                new = len(self._set_places)
                self._sets.write(new, distinct[i : i + 1])
                self._set_places[keys[i]] = new
        return np.array([self._set_places[key] for key in keys], dtype=np.int64)[place]

    def _store(self, answers: NDArray[np.int64], index: NDArray[np.int64] | None) -> None:
        self._answers.write(self._n, answers)
        if index is not None:
            self._set_index.write(self._n, index)
        self._n += len(answers)

    def _published(self) -> Published:
        n = self._n if self.mechanism.publishes_subset else 0
        return Published(self._set_index.first(n).astype(np.int64), self._sets.first(len(self._set_places)))


def check_mechanism(mechanism: Any) -> Mechanism:
    """Return a mechanism, or raise ValueError."""
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be a Mechanism, such as SRR(4, epsilon=1.0), got {brief(mechanism)}")
    return mechanism


def checked_answers(mechanism: Mechanism, categories: Sequence[str], answers: Any) -> NDArray[Any]:
    """Return answers as the mechanism stores them, or raise ValueError; bits with labels are aligned."""
    if "category" in mechanism.answer_dims:
        align = by_label if getattr(answers, "ndim", 0) == 1 else by_column
        answers = align(answers, categories, "answers")
    return mechanism.check_answers(answers)


def _as_codes(mechanism: Mechanism, categories: Sequence[str], answers: Any) -> Any:
    """Return labels as codes, or raise ValueError; what holds no text is returned as it is.

    Errors do not show the text: if it is not a label, it may be from another column of the table.
    """
    are_sets = "member" in mechanism.answer_dims
    if not (mechanism.answers_are_categories or are_sets) or isinstance(answers, np.ma.MaskedArray):
        return answers
    _refuse_numbers(answers, categories)
    try:
        # NumPy alone would turn the number in ["a", 1] into text.
        array = np.asarray(answers, dtype=object if isinstance(answers, str | list | tuple) else None)
    except Exception:  # rows of different lengths, or whatever an object of another library raises
        return answers
    flat = array.ravel().tolist() if array.dtype.kind in "OUT" else []
    if not any(isinstance(each, str) for each in flat):
        return answers
    known = labels_as_codes(categories)
    code = {
        text: known.get(normalize("NFC", text.strip())) for text in {each for each in flat if isinstance(each, str)}
    }
    codes = [code[each] if isinstance(each, str) else None for each in flat]
    if None in codes:
        place = codes.index(None)
        what = "text that is not one of them" if isinstance(flat[place], str) else "a value that is not text"
        labels = brief(list(categories))
        raise ValueError(f"answers must be labels among {labels} if they are text, got {what} (place {place})")
    found = np.array(codes, dtype=np.int64).reshape(array.shape)
    return np.sort(found, axis=-1) if are_sets and found.ndim else found


def _refuse_numbers(answers: Any, categories: Sequence[str]) -> None:
    """Raise ValueError if integers of pandas, as in a column of a table, could be codes or labels."""
    pandas, number = sys.modules.get("pandas"), number_among(categories)
    if pandas is None or number is None:
        return
    tables = pandas.Series | pandas.Index | pandas.Categorical | pandas.DataFrame
    if isinstance(answers, tables) and np.asarray(answers).dtype.kind in "iu":
        raise ValueError(
            "answers must be text (astype(str)) or an array of codes (to_numpy()) if categories are numbers, "
            f"such as {number!r}, got a {type(answers).__name__} of numbers, which could be codes 0, 1, … or labels"
        )


class Column:
    """An array that grows along its first axis in amortized constant time. Its owner keeps the number of rows."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._buffer = np.empty((16, *shape), dtype=dtype)
        self.dtype = dtype

    def first(self, n: int) -> NDArray[Any]:
        """Return the first n rows."""
        return self._buffer[:n]

    def write(self, start: int, rows: NDArray[Any]) -> None:
        """Write rows from `start` on, over what was there."""
        end = start + len(rows)
        if end > len(self._buffer):
            grown = np.empty((max(end, 2 * len(self._buffer)), *self._buffer.shape[1:]), dtype=self.dtype)
            grown[:start] = self._buffer[:start]
            self._buffer = grown
        self._buffer[start:end] = rows


def _ndim(subsets: Any) -> int:
    """Return the number of dimensions; 2 for rows of different lengths."""
    try:
        return np.ndim(subsets)
    except Exception:  # whatever an object of another library raises
        return 2


def _check_subset_table(
    subsets: ArrayLike | None, subset_index: ArrayLike | None, n: int, categories: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    n_categories = len(categories)
    try:
        masks = as_numbers(by_column(subsets, categories, "subsets"), "b")
    except TypeError:
        masks = np.empty(0)
    if masks.dtype != bool or masks.ndim != 2 or masks.shape[1] != n_categories:
        raise ValueError(f"subsets must be boolean masks of shape (V, {n_categories}), got {brief(subsets)}")
    if masks.all(axis=1).any():
        raise ValueError(f"subsets must each leave at least one of the {n_categories} categories out")
    try:
        index = np.arange(len(masks)) if subset_index is None else as_numbers(subset_index, "iu")
    except TypeError:
        index = np.empty((0, 0))
    if index.shape != (n,):
        raise ValueError(f"subset_index must be {n} integers, one per answer, got {brief(subset_index)}")
    if n and (index.min() < 0 or index.max() >= len(masks)):
        raise ValueError(f"subset_index must be from 0 to {len(masks) - 1}, got {index.min()} to {index.max()}")
    return masks, index.astype(np.int64)


def _check_schema(dataset: "xr.Dataset") -> Mechanism:
    """Return the mechanism of a dataset of `to_xarray`, or raise ValueError."""
    import xarray as xr

    if not isinstance(dataset, xr.Dataset):
        raise ValueError(f"dataset must be one of Responses.to_xarray, got {type(dataset).__name__}")
    schema, version = dataset.attrs.get("schema"), dataset.attrs.get("schema_version")
    if schema != SCHEMA:
        raise ValueError(f"the attribute 'schema' must be {SCHEMA!r}, got {brief(schema)}")
    if not isinstance(version, int | np.integer) or version < 1:
        raise ValueError(f"the schema version must be a whole number, got {brief(version)}")
    if version != SCHEMA_VERSION:
        hint = ": upgrade adobest_pp" if version > SCHEMA_VERSION else ""
        raise ValueError(f"the schema version must be {SCHEMA_VERSION}, got {version}{hint}")
    if "category" not in dataset.coords or dataset["category"].dims != ("category",):
        raise ValueError("the coordinate 'category' with the labels is missing")
    try:
        settings = loads(dataset.attrs.get("mechanism_settings", ""))
    except ValueError:
        raise ValueError("the attribute 'mechanism_settings' must be settings of a mechanism as JSON") from None
    return mechanism_from_settings(settings)


# Variables of a dataset, read by their codes, so that the order of the dataset does not matter.


def variable(dataset: "xr.Dataset", name: str, dims: tuple[str, ...]) -> NDArray[Any]:
    """Return a variable with its dimensions in this order, or raise ValueError."""
    if name not in dataset or set(dataset[name].dims) != set(dims):
        got = tuple(dataset[name].dims) if name in dataset else "no such variable"
        raise ValueError(f"the variable {name!r} must be there by {', '.join(dims)}, got {got}")
    return np.asarray(dataset[name].transpose(*dims).values)


def inverse(dataset: "xr.Dataset", dim: str, n: int) -> NDArray[np.int64]:
    """Return the place of each code 0 … n−1 along a dimension, or raise ValueError unless each is there once."""
    codes = _codes(dataset, dim)
    if not np.array_equal(np.sort(codes), np.arange(n)):
        raise ValueError(f"the dataset must hold all {n} of its {dim} codes, each once, got {codes.size} along {dim!r}")
    return np.argsort(codes)


def subset_positions(dataset: "xr.Dataset", index: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each subset code along the dimension "subset", or raise ValueError if one is missing."""
    codes = _codes(dataset, "subset")
    order = np.argsort(codes)
    if codes.size == 0 or index.dtype.kind not in "iu":
        return index
    places = order[np.searchsorted(codes, index, sorter=order).clip(max=codes.size - 1)]
    if len(np.unique(codes)) < codes.size or not np.array_equal(codes[places], index):
        raise ValueError("the dataset must hold every subset that was published for its answers, each once")
    return np.asarray(places, dtype=np.int64)


def _codes(dataset: "xr.Dataset", dim: str) -> NDArray[np.int64]:
    name = f"{dim}_code"
    if name not in dataset.coords or dataset[name].dims != (dim,) or dataset[name].dtype.kind not in "iu":
        raise ValueError(f"the coordinate {name!r} must be there, integers along {dim!r}")
    return np.asarray(dataset[name].values, dtype=np.int64)


def check_responses(responses: Any) -> None:
    """Raise ValueError unless these are `Responses` or `Gathered`."""
    if isinstance(responses, Responses):
        return
    from adobest_pp.answers.gather.gathered import Gathered

    if not isinstance(responses, Gathered):
        hint = ", which has no labels: pass what it is the evidence of" if isinstance(responses, Evidence) else ""
        raise ValueError(f"responses must be a Responses, got {type(responses).__name__}{hint}")
