"""Write the page of the paper's study: statements, figures and tables beside what the runs say.

Run ``adobest study run`` for the studies of this folder first: ``paper.toml``, and perhaps ``paper_as_published.toml``
and ``equal_privacy.toml``.
"""

import argparse
import sys
from pathlib import Path

from adobest_pp.studies import open_study
from validation.paper.page import write_page


def main(argv: list[str] | None = None) -> int:
    """Read the stores, write the page, and print what was written."""
    parser = argparse.ArgumentParser(prog="python -m validation.paper", description=__doc__)
    parser.add_argument("store", type=Path, help="the store of paper.toml, or of a part of it")
    parser.add_argument("--out", type=Path, required=True, help="the folder for figures, tables and page")
    parser.add_argument("--as-published", type=Path, help="the store of the study with the budgets of the program")
    parser.add_argument("--equal-privacy", type=Path, help="the store of the study with exact posterior means")
    parser.add_argument("--reference", type=Path, help="medians of the authors' program, such as reference_tv.csv")
    options = parser.parse_args(argv)
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out must be a folder, got {str(options.out)!r}")
    try:
        paths = (options.as_published, options.equal_privacy)
        published, equal = (None if path is None else open_study(path) for path in paths)
        dataset = open_study(options.store)
        written = write_page(dataset, options.out, published, equal, options.reference, progressbar=True)
    except (OSError, ValueError) as problem:
        parser.error(str(problem))
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
