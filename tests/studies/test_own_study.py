"""The study of the README, with a run function in a folder of its own, through the command line."""

import csv
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from adobest_pp.cli.main import main
from adobest_pp.studies import open_study
from tests.studies.small import PATIENCE, ROOT


def of_page(language, first_line):
    """Return the code of the page on studies that begins with a line."""
    text = (ROOT / "docs/howto/cluster.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"```{language}\n({re.escape(first_line)}\n.*?)```", text, re.DOTALL)
    return code


@pytest.fixture
def adobest(tmp_path, monkeypatch, capsys):
    """Run ``adobest study …`` in the folder, which is not on the path: exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["study", *arguments])
        return end.value.code or 0, *capsys.readouterr()

    yield call
    sys.modules.pop("coin", None)


@pytest.mark.long
def test_a_study_with_a_function_of_ones_own(tmp_path, adobest):
    code = of_page("python", "# coin.py")
    assert len(code[code.index("def ") :].strip().splitlines()) <= 10
    (tmp_path / "coin.py").write_text(code)
    file = tmp_path / "coin.toml"
    file.write_text(of_page("toml", "# coin.toml"))

    # As the installed command runs it, whose path has no folder but those of libraries.
    program = "import sys; sys.path.remove(''); from adobest_pp.cli.main import main; main()"
    run = ["run", "coin.toml", "--store", "coin.db", "--quiet", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", program, "study", *run],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert adobest("status", "coin.db")[1] == "coin: 120 of 120 runs done (100.0 %), 0 failed, 0 missing\n"

    file.write_text(file.read_text().replace("runs = 20", "runs = 25"))
    assert adobest(*run) == (0, "", "")
    dataset = open_study("coin.db")
    assert dict(dataset.sizes) == {"cell": 6, "run": 25}
    # The standard deviation of the estimate is at most ½/√n/(1 − 2·lie): the mean distance is below it.
    lie = 1 / (1 + np.exp(dataset["epsilon"]))
    assert (dataset["distance"].mean("run") < 0.5 / np.sqrt(dataset["people"]) / (1 - 2 * lie)).all()

    assert adobest("plot", "coin.db", "--out", "page", "--quiet") == (0, "", "")
    assert "| run function | coin:coin_run |" in (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    assert (tmp_path / "page" / "distance.png").is_file()
    assert adobest("export", "coin.db", "--out", "coin.csv") == (0, "", "")
    with (tmp_path / "coin.csv").open(newline="") as rows:
        table = list(csv.DictReader(rows))
    assert len(table) == 150
    assert {row["epsilon"] for row in table} == {"0.5", "1.0", "2.0"}

    (tmp_path / "coin.py").write_text(code.replace("1 + math.exp(epsilon)", "2 + math.exp(epsilon)"))
    status, _, errors = adobest(*run)
    assert status == 2
    assert "store must be of the same sources: coin changed since" in errors
    assert len(errors.splitlines()) == 1
    assert adobest(*run, "--accept-changed-sources") == (0, "", "")
    assert "coin" in open_study("coin.db").attrs["accepted_sources"]
