"""Make the pictures of README and docs (``make pictures``): figures, and the report as Chromium shows it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import adobest_pp as ad

PICTURES = Path(__file__).resolve().parent / "pictures"
MAX_BYTES = 150_000
SHOWN = 16  # states: more would be too small to read in README


def estimates() -> None:
    """Draw what the collector receives from 214,144 people, and the shares that it shows."""
    people = ad.datasets.birth_states()
    states = list(people["state"].cat.categories)
    mechanism = ad.SubsetSelection(len(states), epsilon=2.0)
    answers = mechanism.privatize(people["state"].cat.codes.to_numpy(), rng=np.random.default_rng(1))
    responses = ad.Responses.from_arrays(mechanism, answers, categories=states)
    draws = ad.sample(responses, "sgld_cv", prior="learned", random_seed=1, progressbar=False)
    truth = people["state"].value_counts(normalize=True)[states]
    largest = truth.sort_values(ascending=False).index[:SHOWN].tolist()
    named = np.bincount(np.ravel(answers), minlength=len(states)) / len(people)
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
    left.barh(np.arange(SHOWN), [named[states.index(state)] for state in largest], height=0.8, color="0.75")
    left.set(title="What the collector receives", xlabel="share of answers that name the state", xlim=(0, 0.3))
    ad.plots.plot_estimates({"estimate, 95 % interval": draws}, truth=truth, categories=largest, ax=right)
    right.set(title="What the posterior says", xlabel="share of people born in the state")
    save("estimates.png")


def samplers() -> None:
    """Draw NUTS, the paper's SGLD and the repaired SGLD on one posterior."""
    theta = np.array([0.5, 0.25, 0.15, 0.07, 0.03])
    mechanism = ad.RRRR(5, epsilon=5.0)
    run = ad.simulate_adaptive(
        theta, ad.AdaptiveSubset(mechanism, "honest"), n_people=10_000, categories=list("ABCDE"), random_seed=1
    )
    names = {"nuts": "NUTS", "sgld": "SGLD, the paper's", "sgld_cv": "SGLD, repaired"}
    draws = {label: ad.sample(run.responses, name, random_seed=1, progressbar=False) for name, label in names.items()}
    _, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    ad.plots.plot_estimates(draws, truth=theta, categories=["C", "D", "E"], ax=ax)
    save("samplers.png")


def report() -> None:
    """Take a picture of the report that ``adobest compare`` writes."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "adobest_pp", "compare", "--out", folder, "--seed", "1", "--quiet"]
        subprocess.run(command, check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 900, "height": 1000})
            page.goto((Path(folder) / "report.html").as_uri(), wait_until="load")
            page.screenshot(path=PICTURES / "report.png")
            browser.close()
    shrink(PICTURES / "report.png")


def save(name: str) -> None:
    """Write the current figure, small."""
    plt.savefig(PICTURES / name, dpi=130)
    plt.close("all")
    shrink(PICTURES / name)


def shrink(path: Path) -> None:
    """Keep 64 colors, which a plot or a page of text does not miss, and check the size."""
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(64)
    small.save(path, optimize=True)
    if path.stat().st_size > MAX_BYTES:
        raise RuntimeError(f"{path.name} must be below {MAX_BYTES} bytes, got {path.stat().st_size}")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for picture in (estimates, samplers, report):
        picture()
