"""The pictures of the course show the numbers that they claim to show."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
from matplotlib import pyplot as plt

import oracles
from adobest_pp import RRRR, SRR, HadamardResponse, LocalHashing, Responses, SubsetSelection, UnaryEncoding, plots
from adobest_pp.likelihood import grid_posterior
from adobest_pp.plots.simplex import CORNERS
from tests.diagnostics.test_comparison import tree

COLORS = ["red", "$x", "blue"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_channel_shows_the_matrix_and_frames_the_worst_pair(tmp_path):
    mechanism = RRRR(5, 1.0, 0.8)
    ax = plots.plot_channel(mechanism, subset=[0, 3], categories=list("abcde"))
    ax.figure.savefig(tmp_path / "figure.png")
    matrix = oracles.rrrr_matrix(5, [0, 3], 0.8, mechanism.epsilon2(2))
    np.testing.assert_allclose(ax.images[0].get_array(), matrix, rtol=1e-12)
    assert [text.get_text() for text in ax.texts] == [f"{100 * share:.3g} %" for share in matrix.ravel()]
    (x1, y1), (x2, y2) = ((round(p.get_x() + 0.47), round(p.get_y() + 0.47)) for p in ax.patches)
    assert y1 == y2
    assert np.log(matrix[y1, x1] / matrix[y2, x2]) == pytest.approx(1.0)
    assert ax.get_title() == "privacy loss: ε = 1"


@pytest.mark.parametrize("mechanism", [UnaryEncoding(3, 1.0), HadamardResponse(3, 1.0), SubsetSelection(4, 1.0, 2)])
def test_channel_names_answers_by_their_sets(mechanism):
    ax = plots.plot_channel(mechanism)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["{" + ", ".join(map(str, np.flatnonzero(row > row.min()))) + "}" for row in _rows(mechanism)]


def _rows(mechanism):
    """Rows of the matrix in which the members of the set stand out; {} has none, and the whole set all."""
    rows = mechanism.transition_matrix()
    full = mechanism.support(mechanism.check_answers(mechanism.outputs())).all(axis=1)
    return [np.array([*row, 0.0]) if whole else row for row, whole in zip(rows, full, strict=True)]


def test_channel_of_a_matrix_that_tells_everything():
    assert plots.plot_channel(np.eye(3)).get_title() == "privacy loss: ∞"


def test_belief_is_bayes_rule():
    prior = np.array([0.5, 0.1, 0.4])
    ax = plots.plot_belief(SRR(3, 2.0), 1, prior, categories=COLORS)
    before, after = ([bar.get_height() for bar in bars] for bars in ax.containers)
    np.testing.assert_allclose(before, prior)
    weights = prior * [1, np.exp(2.0), 1]
    np.testing.assert_allclose(after, weights / weights.sum())
    assert [text.get_text() for text in ax.texts] == [f"×{b / a:.3g}" for a, b in zip(before, after, strict=True)]
    assert ax.get_legend().get_texts()[1].get_text() == "after the answer “$x”".replace("$", r"\$")


def answers(n=400):
    mechanism, rng = SRR(3, 1.0), np.random.default_rng(5)
    x = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    return Responses.from_arrays(mechanism, mechanism.privatize(x, rng=rng), categories=COLORS)


@pytest.mark.parametrize("n", [5, 400, 100_000])
@pytest.mark.parametrize("prior", [1.0, 0.5, [2.0, 1.0, 0.7]])
def test_grid_has_the_moments_of_quadrature(n, prior):
    responses = answers(n)
    posterior = grid_posterior(responses, prior)
    rho = np.full(3, prior) if np.ndim(prior) == 0 else np.array(prior)
    evidence = responses.evidence()
    if n < 1000:
        mean, sd = oracles.posterior_moments_k3(oracles.rows_of(responses), rho)
        np.testing.assert_allclose(posterior.mean(), mean, atol=2e-3 * sd.max())
        np.testing.assert_allclose(posterior.sd(), sd, rtol=0.01)
    else:  # a normal distribution by now: the interval is that of its mean and sd
        low, high = posterior.interval()
        np.testing.assert_allclose((high - low) / posterior.sd(), 2 * 1.96, rtol=0.01)
        assert evidence.n_responses == n


def test_grid_of_two_categories():
    responses = Responses.from_arrays(SRR(2, 1.0), [0] * 30 + [1] * 20)
    mean, sd = oracles.posterior_moments_k2(oracles.rows_of(responses), np.ones(2))
    posterior = grid_posterior(responses)
    np.testing.assert_allclose(posterior.mean(), mean, atol=1e-4)
    np.testing.assert_allclose(posterior.sd(), sd, rtol=1e-3)


def test_simplex_shows_draws_where_they_are_and_regions_that_hold_them(tmp_path):
    responses = answers()
    posterior = grid_posterior(responses)
    rng = np.random.default_rng(3)
    drawn = posterior.theta.reshape(-1, 3)[rng.choice(posterior.mass.size, 1000, p=posterior.mass.ravel())]
    draws = {"one": tree(drawn.reshape(2, 500, 3), COLORS), "two": tree(drawn[::-1].reshape(2, 500, 3), COLORS)}
    panels = plots.plot_simplex(draws, responses, truth=[0.6, 0.3, 0.1])
    panels[0].figure.savefig(tmp_path / "figure.png")
    assert [panel.get_title() for panel in panels] == ["one", "two"]
    dots = next(line for line in panels[0].get_lines() if line.get_marker() == ".")
    np.testing.assert_allclose(np.transpose(dots.get_data()), drawn @ CORNERS)
    outer, inner = next(c for c in panels[0].collections if hasattr(c, "levels")).get_paths()
    held = [path.contains_points(drawn @ CORNERS) for path in (outer, inner)]
    # Of 1000 independent draws, a share beyond 5 standard errors has a probability below 1e-6.
    assert abs(held[1].mean() - 0.5) < 5 * np.sqrt(0.25 / 1000)
    assert abs((held[0] | held[1]).mean() - 0.95) < 5 * np.sqrt(0.0475 / 1000)


def test_simplex_of_responses_alone():
    (panel,) = plots.plot_simplex(responses=answers())
    assert panel.get_title() == "exact posterior"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.plot_channel(SRR(3, 1.0), subset=[0]), "subset must be left out for SRR"),
        (lambda: plots.plot_channel(RRRR(3, 1.0)), "subset must be given for RRRR"),
        (lambda: plots.plot_channel(LocalHashing(3, 1.0)), "possible answers"),
        (lambda: plots.plot_belief(SRR(3, 1.0), 3), "answer must be an integer from 0 to 2"),
        (lambda: plots.plot_belief(np.eye(2), 0, [0.0, 1.0]), "answer must be possible"),
        (lambda: plots.plot_simplex(), "draws or responses must be given"),
        (lambda: plots.plot_simplex(responses=Responses(SRR(4, 1.0))), "must have 3 categories"),
        (lambda: grid_posterior(Responses(SRR(4, 1.0))), "responses must be about 2 or 3 categories"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
