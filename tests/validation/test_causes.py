"""The three causes are found where they are planted, and the shipped page is that of the shipped runs."""

import numpy as np
import pytest

from adobest_pp.samplers.sgld.settings import ConstantSteps
from validation import causes
from validation.common import all_passed
from validation.paper.published import published_mechanism

SHAPE = (len(causes.EPSILONS), len(causes.RHOS), causes.RUNS)


def planted(budgets=0.0, step=0.0, empty=0.0, noise=0.02):
    """Errors whose logarithm grows by these amounts from the program's way to the text's; each (ε, ρ) may differ."""
    rng = np.random.default_rng(2)
    logs = np.repeat(rng.normal(-1, 0.5, (*SHAPE, 1, 1)), 7, axis=-2) + rng.normal(0, noise, (*SHAPE, 7, 1))
    effect = [np.broadcast_to(amount, SHAPE[:2])[..., None, None, None] for amount in (budgets, step, empty)]
    corners = np.array(causes.CORNERS)
    added = sum(one * corners[:, place] for place, one in enumerate(effect))
    tv = np.exp(logs + added)
    tv[..., -1, :] = np.exp(logs[..., -1, :])  # SRR has none of the three
    return tv


def found_in(tv):
    return causes.find(causes.log_ratios(tv))


def test_each_cause_has_its_own_effect_whichever_way_the_others_are():
    findings = found_in(planted(budgets=0.3, step=-0.2, empty=0.1))
    for ways in findings.cells.values():
        for cause, amount in zip(causes.CAUSES, (0.3, -0.2, 0.1), strict=True):
            for way in causes.WAYS:
                assert ways[cause][way].middle == pytest.approx(amount)
    for total in findings.total.values():
        assert total.middle == pytest.approx(0.2)
    for effects in findings.utilities.values():
        assert [one.middle for one in effects.values()] == pytest.approx([0.3, -0.2, 0.1])


def test_the_ways_differ_where_causes_need_each_other():
    """Published budgets matter only with the constant step: 0.4 from the program's end, 0 from the text's."""
    logs = np.zeros((1, 2, 2, 2))
    logs[:, 1, 0, :] = 0.4
    effects = {way: float(values[0]) for way, values in causes.effects(logs)["budgets"].items()}
    assert list(effects.values()) == pytest.approx([0.4, 0.0, 0.2])


def test_the_level_is_of_all_intervals_together():
    findings = found_in(planted())
    shown = len(findings.total) + len(findings.utilities) * 3
    shown += sum(len(ways) for cell in findings.cells.values() for ways in cell.values())
    assert shown == 9 + 18 + 81
    assert findings.level == pytest.approx(1 - 0.05 / shown)


def test_statements_fail_where_they_are_false():
    small = np.array([[0.3] * 3, [0.3] * 3, [-0.3, 0.0, 0.0]])

    def failing(**effects):
        found = causes.stated(found_in(planted(**{"budgets": small} | effects)))
        return [one.name for one in found if not one.passed]

    assert failing() == []
    assert failing(budgets=small * [[1, 1, 0], [1, 1, 1], [1, 1, 1]]) == ["better"]
    assert failing(budgets=np.abs(small)) == ["better", "worse"]
    assert failing(step=0.05) == ["step"]
    assert failing(empty=0.2) == ["small"]
    assert failing(empty=-0.4) == ["small", "smaller"]


def test_runs_differ_in_what_their_corner_says_and_in_nothing_else(monkeypatch):
    asked = []

    def fake(theta, policy, **options):
        chosen = {"schedule": policy.schedule, "smallest_size": policy.smallest_size}
        asked.append((theta.tolist(), policy.mechanism, policy.utility, options | chosen))
        return type("Run", (), {"chain_mean": theta + 0.01 * len(asked)})

    monkeypatch.setattr(causes, "simulate_adaptive", fake)
    found = causes.errors(causes.Setting(4, 1.0, 0.1, 3, 1, 50))
    assert len(asked) == 2 + 6 * 8
    assert len({str((theta, options["random_seed"].entropy)) for theta, _, _, options in asked}) == 1
    for method, corner, place in [("fisher", (0, 0, 0), 2), ("fisher", (0, 1, 1), 5), ("honest", (1, 0, 1), 2 + 45)]:
        _, mechanism, name, options = asked[place]
        assert name == method
        assert (mechanism.epsilon > 1.01) == (corner[0] == 0)
        assert isinstance(options["schedule"], ConstantSteps) == (corner[1] == 0)
        assert options["smallest_size"] == (0 if corner[2] else 1)
        row = list(causes.UTILITIES).index(method)
        assert found[row, causes.CORNERS.index(corner)] == pytest.approx(0.02 * (place + 1))
    assert asked[2][1].epsilon == published_mechanism(4, 1.0, causes.KAPPA).epsilon
    assert [options["smallest_size"] for _, _, _, options in asked[:2]] == [0, 0]
    # SRR by step: the first run is of the constant one.
    np.testing.assert_allclose(found[-1], [0.02 if step == 0 else 0.04 for _, step, _ in causes.CORNERS])


def test_truths_are_of_their_run_alone_and_none_is_rounded_away():
    setting = causes.Setting(10, 1.0, 0.01, 0, 1, 50)
    other = causes.Setting(10, 5.0, 0.01, 0, 1, 7)
    np.testing.assert_array_equal(causes.truth(setting), causes.truth(other))
    draws = np.array([causes.truth(causes.Setting(10, 1.0, 0.01, run, 1, 50)) for run in range(400)])
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    # E θᵢ² = (ρ + 1) / (K (Kρ + 1)) = 0.0918; four standard errors of 4000 draws, which are nearly 0 or 1.
    assert np.mean(draws**2) == pytest.approx(0.0918, abs=4 * np.sqrt(0.0918 * 0.91 / 4000))
    assert np.mean(draws == 0) < 0.02  # those below the smallest double, 1e-324 = e^(−7.46/0.01): 0.06 % of them


def test_the_shipped_page_is_that_of_the_shipped_runs(tmp_path):
    tv = causes.read_csv(causes.FOLDER / "causes.csv")
    assert tv.shape == (3, 3, causes.RUNS, 7, 8)
    logs = causes.log_ratios(tv)
    causes.write(tv, causes.page(logs, causes.find(logs)), tmp_path)
    for name in ("causes.md", "causes.csv"):
        assert (tmp_path / name).read_bytes() == (causes.FOLDER / name).read_bytes()
    assert all_passed(causes.sound(tv) + causes.stated(causes.find(logs)))
