"""The study of the README, with a run function in a folder of its own, through the command line."""

import csv
import os
import re
import subprocess
import sys

import numpy as np

from adobest_pp.studies import open_study
from tests.studies.small import PATIENCE, ROOT


def of_readme(language, first_line):
    """Return the code of the README that begins with a line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"```{language}\n({re.escape(first_line)}\n.*?)```", text, re.DOTALL)
    return code


def adobest(folder, *arguments):
    """Run ``adobest study …`` in a folder, as the installed command would: the folder is not on the path."""
    program = "import sys; sys.path.remove(''); from adobest_pp.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "study", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_a_study_with_a_function_of_ones_own(tmp_path):
    code = of_readme("python", "# coin.py")
    body = code[code.index("def ") :].strip().splitlines()
    assert len(body) <= 10
    (tmp_path / "coin.py").write_text(code)
    file = tmp_path / "coin.toml"
    file.write_text(of_readme("toml", "# coin.toml"))

    done = adobest(tmp_path, "run", "coin.toml", "--store", "coin.zarr", "--workers", "2", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    status = adobest(tmp_path, "status", "coin.zarr")
    assert status.stdout == "coin: 120 of 120 runs done (100.0 %), 0 failed, 0 missing\n"

    file.write_text(file.read_text().replace("runs = 20", "runs = 25"))
    assert adobest(tmp_path, "run", "coin.toml", "--store", "coin.zarr", "--workers", "1", "--quiet").returncode == 0
    dataset = open_study(tmp_path / "coin.zarr")
    assert dict(dataset.sizes) == {"cell": 6, "run": 25}
    # The standard deviation of the estimate is √(p(1−p)/n)/(1−2·lie), at most: the mean distance is below it.
    lie = 1 / (1 + np.exp(dataset["epsilon"]))
    assert (dataset["distance"].mean("run") < 0.5 / np.sqrt(dataset["people"]) / (1 - 2 * lie)).all()

    plotted = adobest(tmp_path, "plot", "coin.zarr", "--out", "page", "--quiet")
    assert plotted.returncode == 0, plotted.stderr
    page = (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    assert "| run function | coin:coin_run |" in page
    assert (tmp_path / "page" / "distance.png").is_file()
    assert adobest(tmp_path, "export", "coin.zarr", "--out", "coin.csv").returncode == 0
    with (tmp_path / "coin.csv").open(newline="") as rows:
        table = list(csv.DictReader(rows))
    assert len(table) == 150
    assert {row["epsilon"] for row in table} == {"0.5", "1.0", "2.0"}

    (tmp_path / "coin.py").write_text(code.replace("1 + math.exp(epsilon)", "2 + math.exp(epsilon)"))
    changed = adobest(tmp_path, "run", "coin.toml", "--store", "coin.zarr", "--quiet")
    assert changed.returncode == 2
    assert "store must be of the same sources: coin changed since" in changed.stderr
    assert len(changed.stderr.splitlines()) == 1
    accepted = adobest(tmp_path, "run", "coin.toml", "--store", "coin.zarr", "--quiet", "--accept-changed-sources")
    assert accepted.returncode == 0, accepted.stderr
    assert "coin" in open_study(tmp_path / "coin.zarr").attrs["accepted_sources"]
