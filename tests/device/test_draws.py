"""200,000 draws of each mechanism, in Node and in Chromium, against the probabilities that are audited.

Entropy is the system's, so a test may fail by chance: each with probability 10⁻⁶, in all 10⁻⁵ a run.
"""

import json

import numpy as np
import pytest
from scipy import stats

import adobest_pp as ad
from tests.device.harness import MODULE, design, exact_weights, needs_node, question, run_node
from tests.report.browser import CHROMIUM, chromium

DRAWS = 200_000
FALSE_ALARM = 1e-6
ASKED = {
    "SRR": question(ad.SRR(4, 1.0)),
    "subset selection": question(ad.SubsetSelection(5, 1.0, size=2)),
    "set family": question(design(5)),
    "RRRR": question(ad.RRRR(6, 1.0, kappa=0.8), (0, 2)),
    "Hadamard response": question(ad.HadamardResponse(5, 1.0)),
    "projective geometry": question(ad.ProjectiveGeometryResponse(9, 1.0, 3)),
    "count-mean sketch": question(ad.CountMeanSketch(5, 1.0, n_hashes=6)),
}


def p_value(asked, counts):
    """Pearson's test of all counts, answers by category, against the ratios of integers that are audited."""
    weights = np.array(exact_weights(asked), dtype=object)
    outputs = [json.dumps(answer, separators=(",", ":")) for answer in asked.mechanism.outputs().tolist()]
    statistic, freedom = 0.0, 0
    for x, column in enumerate(weights.T):
        integers = [int(weight) for weight in column]
        observed = np.array([counts[x].get(output, 0) for output in outputs])
        assert observed.sum() == sum(counts[x].values())  # no other answers
        expected = observed.sum() * np.array([weight / sum(integers) for weight in integers])
        statistic += float(((observed - expected) ** 2 / expected).sum())
        freedom += len(outputs) - 1
    return float(stats.chi2.sf(statistic, freedom))


# Exact odds of all mechanisms are compared in test_module.py; the draws of each kind of answer here.
QUICK = ("SRR", "subset selection", "RRRR")


@needs_node
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in ASKED]
)
def test_draws_in_node(name):
    given = {"questions": [ASKED[name].to_json()], "epsilon": 1.0, "draws": DRAWS}
    (counts,) = run_node(given)["counts"]
    assert sum(sum(each.values()) for each in counts) == DRAWS
    assert p_value(ASKED[name], counts) > FALSE_ALARM


PAGE = "https://device.test/"
COUNT = """async ([text, draws]) => {
  const { readQuestion } = await import("/adobest.js");
  const question = readQuestion(text, { epsilon: 1 });
  const counts = question.categories.map(() => ({}));
  for (let i = 0; i < draws; i += 1) {
    const x = i % counts.length;
    const answer = JSON.stringify(question.privatize(x));
    counts[x][answer] = (counts[x][answer] ?? 0) + 1;
  }
  return counts;
}"""


@pytest.fixture(scope="module")
def tab():
    """A page of an origin that exists only here, with the module beside it; it notes all that it asks for."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")

    with chromium() as browser, browser.new_context() as context:
        page = context.new_page()
        page.asked_for, page.logged = [], []

        def serve(route):
            page.asked_for.append(route.request.url)
            if route.request.url == f"{PAGE}adobest.js":
                route.fulfill(body=MODULE.read_text(encoding="utf-8"), content_type="text/javascript")
            else:
                route.fulfill(body="<!doctype html><title>device</title>", content_type="text/html")

        page.on("console", lambda message: page.logged.append(message.text))
        page.on("pageerror", lambda problem: page.logged.append(str(problem)))
        context.route("**/*", serve)
        page.goto(PAGE)
        yield page


# Node draws by the same module, and tests/poll shows that browsers have what the module needs.
@pytest.mark.long
@pytest.mark.parametrize("name", ASKED)
def test_draws_in_chromium(tab, name):
    counts = tab.evaluate(COUNT, [ASKED[name].to_json(), DRAWS])
    assert sum(sum(each.values()) for each in counts) == DRAWS
    assert p_value(ASKED[name], counts) > FALSE_ALARM


WATCH = """async ([text, x]) => {
  const touched = [];
  const watch = (owner, name) => {
    const old = owner[name];
    owner[name] = function (...given) { touched.push(name); return old.apply(this, given); };
  };
  for (const name of ["fetch", "open", "postMessage", "setTimeout", "requestAnimationFrame"]) watch(window, name);
  for (const name of ["log", "info", "warn", "error", "debug", "trace", "table"]) watch(console, name);
  for (const name of ["pushState", "replaceState"]) watch(history, name);
  for (const name of ["getItem", "setItem"]) watch(Storage.prototype, name);
  for (const name of ["open", "send"]) watch(XMLHttpRequest.prototype, name);
  watch(navigator, "sendBeacon"); watch(Math, "random"); watch(Date, "now"); watch(IDBFactory.prototype, "open");
  const { readQuestion } = await import("/adobest.js");
  const before = new Set(Object.getOwnPropertyNames(window));
  const question = readQuestion(text, { epsilon: 1 });
  const shape = JSON.stringify(question, (_, value) => (typeof value === "bigint" ? String(value) : value));
  const answers = Array.from({ length: 50 }, () => question.privatize(x));
  return {
    touched,
    same: shape === JSON.stringify(question, (_, value) => (typeof value === "bigint" ? String(value) : value)),
    globals: Object.getOwnPropertyNames(window).filter((name) => !before.has(name)),
    stored: [localStorage.length, sessionStorage.length, document.cookie, location.href, name],
    distinct: new Set(answers.map(String)).size,
  };
}"""


@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_stored_logged_or_sent(tab, name):
    tab.goto(PAGE)
    tab.asked_for.clear()
    seen = tab.evaluate(WATCH, [ASKED[name].to_json(), 3])
    assert seen["touched"] == seen["globals"] == tab.logged == []
    assert seen["same"]
    assert seen["distinct"] > 1
    assert seen["stored"] == [0, 0, "", PAGE, ""]
    assert set(tab.asked_for) <= {f"{PAGE}adobest.js"}
