"""The examples of README and docs call our functions as their types say."""

import subprocess
import sys

import pytest

from tests.docs.blocks import PAGES, ROOT, programs_of

# An example need not say its types. "index": `privatize` returns a number or an array, as it is given.
LENIENT = ["--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-any-generics"]
LENIENT += [
    "--allow-redefinition",
    *(f"--disable-error-code={name}" for name in ("var-annotated", "import-untyped", "index")),
]
PLANTED = """import adobest_pp as ad

ad.SRR(4, epsilon="1")
ad.SRR(4, 1.0).no_such_name
"""


def write_programs(folder):
    """Write the programs of each page to a file, on the lines that they have in the page."""
    for page in [ROOT / "README.md", *PAGES]:
        lines = []
        for block in programs_of(page):
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
        if lines:
            (folder / page.relative_to(ROOT).with_suffix(".py").as_posix().replace("/", "_")).write_text(
                "\n".join(lines)
            )


@pytest.mark.long
def test_examples_call_us_as_our_types_say(tmp_path):
    """`make lint` does this for the package, the models, the lessons and the validation programs."""
    write_programs(tmp_path)
    (tmp_path / "planted.py").write_text(PLANTED)
    files = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    assert len(files) > 20
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir=.mypy_cache/docs", *LENIENT, *files]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    problems = [line for line in finished.stdout.splitlines() if "note:" not in line]
    planted = [line for line in problems if "planted.py" in line]
    assert [line.rpartition("[")[2].rstrip("]") for line in planted] == ["arg-type", "attr-defined"], finished.stderr
    assert [line for line in problems if line not in planted] == []
