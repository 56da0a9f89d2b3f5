"""What a study file may say, and what is said of one that it may not."""

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import oracles
from adobest_pp.design import UTILITIES
from adobest_pp.studies import Study, cells_of, read_study, runs
from adobest_pp.studies.grid import Cell
from adobest_pp.studies.methods import METHOD_LABELS, method_label
from adobest_pp.studies.published import published_epsilon2, published_mechanism
from tests.studies.small import FILE, ROOT, settings, study

FILES = sorted((ROOT / "studies").glob("*.toml"))
ALPHAS = (0.2, 0.6, 0.8, 0.9, 0.95)


def test_the_paper_is_there_whole():
    cells = cells_of(read_study(ROOT / "studies" / "paper.toml"))
    methods = [*(f"semi_adaptive_{alpha}" for alpha in ALPHAS), "fisher", "entropy", "tv1", "tv2", "mse", "honest"]
    grid = set(product([10, 20], [0.5, 1.0, 5.0], [0.8, 0.9], [0.01, 0.1, 1.0], methods))
    grid |= set(product([10, 20], [0.5, 1.0, 5.0], [None], [0.01, 0.1, 1.0], ["nonadaptive"]))
    assert {(cell.n_categories, cell.epsilon, cell.kappa, cell.rho, cell.method) for cell in cells} == grid
    assert len(cells) == len(grid) == 414
    assert {(c.mechanism, c.prior, c.sampler, c.budgets) for c in cells} == {("rrrr", "flat", "sgld", "theorem1")}
    assert {cell.n_people for cell in cells} == {5000, 10000}


def test_the_quick_one_is_the_start_of_the_whole_one():
    whole, quick = (read_study(ROOT / "studies" / f"{name}.toml") for name in ("paper", "paper_quick"))
    assert replace(quick, name=whole.name, runs=whole.runs) == whole
    assert (whole.runs, quick.runs) == (50, 3)


def test_as_published_has_settings_of_the_paper():
    whole, published = (read_study(ROOT / "studies" / f"{name}.toml") for name in ("paper", "paper_as_published"))
    same = {"name": whole.name, "runs": whole.runs, "budgets": whole.budgets, "method": whole.method}
    assert replace(published, **same) == whole
    assert published.runs <= whole.runs
    assert published.method == ("nonadaptive", *UTILITIES)
    assert published.budgets == ("published",)


def test_equal_privacy_has_runs_of_the_paper():
    whole, part = (read_study(ROOT / "studies" / f"{name}.toml") for name in ("paper", "equal_privacy"))
    assert set(cells_of(part)) <= set(cells_of(whole))
    assert part.seed == whole.seed
    assert part.runs <= whole.runs
    assert {"tv", "exact_tv"} <= set(part.measures)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_study_can_be_written_and_read_again(path):
    made = read_study(path)
    assert Study.from_dict(made.to_dict()) == made
    assert made.name == path.stem
    assert len({cell.key() for cell in cells_of(made)}) == len(cells_of(made))


def test_the_digest_is_of_what_is_said_and_not_of_how(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text("# a comment\n" + FILE.replace("1.0", "1").replace("seed = 5", "seed    = 5"))
    assert read_study(path).digest() == study().digest()
    assert study(prior=["flat"], mechanism=["rrrr"]).digest() == study().digest()
    for changes in ({"seed": 6}, {"runs": 21}, {"K": [4, 3]}, {"measures": ["tv"]}, {"people_per_category": 1}):
        assert study(**changes).digest() != study().digest()


def test_kappa_may_be_left_out_where_nothing_depends_on_it():
    plain = settings(method=["nonadaptive"])
    with pytest.raises(ValueError, match=r"grid\.kappa must have values that go with the others, got 0\.8"):
        Study.from_dict(plain)
    del plain["grid"]["kappa"]
    assert {cell.kappa for cell in cells_of(Study.from_dict(plain))} == {None}
    plain["grid"]["method"] = ["nonadaptive", "honest"]
    with pytest.raises(ValueError, match=r"grid\.kappa must be given"):
        Study.from_dict(plain)


def test_settings_that_do_not_go_together_are_left_out_of_the_product():
    made = study(
        method=["nonadaptive", "honest", "fixed"],
        mechanism=["rrrr", "subset_selection"],
        sampler=["sgld", "exact"],
        budgets=["theorem1", "published"],
    )
    found = {(cell.mechanism, cell.method, cell.sampler, cell.budgets) for cell in cells_of(made)}
    assert found == {
        *product(["rrrr"], ["nonadaptive", "honest"], ["sgld", "exact"], ["theorem1", "published"]),
        ("subset_selection", "fixed", "exact", "theorem1"),
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sead": 1}, r"^sead must be a known key \(.*\): did you mean 'seed'\?"),
        ({"people_per_categories": 1}, r"did you mean 'people_per_category'\?"),
        ({"zzzzzz": 1}, r"^zzzzzz must be a known key \([^?]*$"),
        ({"method": ["honst"]}, r"^grid\.method: .* got 'honst': did you mean 'honest'\?"),
        ({"method": ["semi_adaptiv_0.9"]}, r"did you mean 'semi_adaptive_0.95'\?"),
        ({"method": ["semi_adaptive_1.5"]}, r"^grid\.method: the mass .* number from 0 to 1, got 'semi_adaptive_1.5'"),
        ({"method": ["semi_adaptive_-0"]}, r"written shortest, 'semi_adaptive_0', got 'semi_adaptive_-0'"),
        ({"method": ["semi_adaptive_0.90"]}, r"written shortest, 'semi_adaptive_0.9', got 'semi_adaptive_0.90'"),
        ({"measures": ["tv", "honset"]}, r"^measures: .* did you mean 'honest'\?"),
        ({"measures": []}, r"^measures must be a list that is not empty, got \[\]"),
        ({"measures": ["tv", "tv"]}, r"^measures must have each value once"),
        ({"sampler": ["sgdl"]}, r"^grid\.sampler: .* did you mean 'sgld'\?"),
        ({"mechanism": ["subset_selection"]}, r"^grid\.K must have values that go with the others"),
        ({"budgets": ["published"]}, r"^grid\.method must have values that go with .* got 'semi_adaptive_0.6'"),
        ({"K": []}, r"^grid\.K must be a list that is not empty, got \[\]"),
        ({"K": 10}, r"^grid\.K must be a list"),
        ({"K": [10.0]}, r"^grid\.K: n_categories must be an integer"),
        ({"K": [10, True]}, r"^grid\.K: n_categories must be an integer"),
        ({"K": [3, 3]}, r"^grid\.K must have each value once"),
        ({"epsilon": [1, 1.0]}, r"^grid\.epsilon must have each value once"),
        ({"epsilon": ["1"]}, r"^grid\.epsilon: epsilon must be a number"),
        ({"epsilon": [float("nan")]}, r"^grid\.epsilon: epsilon must be a number"),
        ({"kappa": [1.1]}, r"^grid\.kappa: kappa must be a number above 0 and at most 1, got 1\.1"),
        ({"rho": [0]}, r"^grid\.rho: rho must be a positive number, got 0"),
        ({"rho": [float("inf")]}, r"^grid\.rho: rho must be a positive number"),
        ({"runs": 0}, r"^runs must be an integer from 1 to 1000000, got 0"),
        ({"runs": "3"}, r"^runs must be an integer"),
        ({"seed": -1}, r"^seed must be an integer of at least 0"),
        ({"people_per_category": 1.5}, r"^people_per_category must be an integer"),
        ({"runs": 10**9}, r"^runs must be an integer from 1 to 1000000, got 1000000000"),
        ({"name": "two\nlines"}, r"^name must be a string of printable characters .* got 'two\\nlines'"),
        ({"name": "red \x1b[31m"}, r"^name must be a string of printable characters"),
        ({"name": ""}, r"^name must be a string .* that is not empty"),
        ({"name": 3}, r"^name must be a string"),
    ],
)
def test_what_is_wrong_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        study(**changes)


@pytest.mark.parametrize("mass", ["0", "1", "0.5", "0.9999999", "0.12345678901", "1e-07"])
def test_a_mass_may_have_any_number_of_digits(mass):
    method = f"semi_adaptive_{mass}"
    cells = cells_of(study(method=[method]))
    assert {(cell.method, cell.alpha) for cell in cells} == {(method, float(mass))}
    with pytest.raises(ValueError, match=rf"written shortest, '{re.escape(method)}', got"):
        study(method=[f"semi_adaptive_+{mass}"])


def test_equal_cells_have_the_same_key_and_what_is_no_cell_is_refused():
    rest = ("rrrr", "honest", "flat", "sgld", "theorem1")
    plain = Cell(4, 1.0, 1.0, 1.0, *rest, 50)
    other = Cell(np.int64(4), 1, np.float64(1), 1, *rest, np.int32(50))
    assert other == plain
    assert other.key() == plain.key()
    assert runs.seed_of(1, other, 2).entropy == runs.seed_of(1, plain, 2).entropy
    np.testing.assert_array_equal(runs.truth_of(1, other, 2), runs.truth_of(1, plain, 2))
    assert replace(plain, kappa=None).kappa is None
    for change in ({"n_categories": 4.5}, {"epsilon": "1"}, {"kappa": 2}, {"rho": 0}, {"people_per_category": 0}):
        with pytest.raises(ValueError, match=f"^{next(iter(change))} must be"):
            replace(plain, **change)


def test_keys_of_the_grid_are_checked_and_none_may_be_missing():
    plain = settings()
    plain["grid"]["epsilom"] = plain["grid"].pop("epsilon")
    with pytest.raises(ValueError, match=r"^grid\.epsilom must be a known key \(.*\): did you mean 'epsilon'\?"):
        Study.from_dict(plain)
    for key in ("name", "runs", "seed", "measures", "grid"):
        with pytest.raises(ValueError, match=f"^{key} must be given"):
            Study.from_dict({name: value for name, value in settings().items() if name != key})
    for key in ("K", "epsilon", "rho", "method"):
        plain = settings()
        del plain["grid"][key]
        with pytest.raises(ValueError, match=rf"^grid\.{key} must be given"):
            Study.from_dict(plain)
    with pytest.raises(ValueError, match=r"^grid must be a table of lists, got 3"):
        Study.from_dict(settings() | {"grid": 3})


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b""])
def test_a_file_that_is_no_study_is_refused_by_its_name(tmp_path, content):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.toml: "):
        read_study(path)
    with pytest.raises(FileNotFoundError):
        read_study(Path("nowhere.toml"))


def test_every_method_has_a_label():
    for method in read_study(ROOT / "studies" / "paper.toml").method:
        assert method_label(method) != method
    assert method_label("semi_adaptive_0.9") == "semi-adaptive α = 0.9"
    assert set(UTILITIES) <= set(METHOD_LABELS)


@pytest.mark.parametrize(("k", "epsilon", "kappa"), [*product([10, 20], [0.5, 1.0, 5.0], [0.8, 0.9])])
def test_the_published_budgets_are_those_of_the_program_and_break_the_promise(k, epsilon, kappa):
    for size in range(k):
        assert published_epsilon2(size, epsilon, kappa) == oracles.program_epsilon2(size, epsilon, kappa)
    mechanism = published_mechanism(k, epsilon, kappa)
    assert mechanism.epsilon1 == kappa * epsilon
    assert mechanism.epsilon > epsilon + 0.3
