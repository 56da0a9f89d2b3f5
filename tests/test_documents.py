"""The pages for people name files that exist, and the walk of a new developer is short."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES

ROOT = Path(__file__).parents[1]
# Where a page may name a file without its folder.
HOMES = (
    "",
    "adobest_pp",
    "adobest_pp/mechanisms",
    "adobest_pp/samplers",
    "adobest_pp/studies",
    "adobest_pp/teaching",
    "lessons",
    "models",
)
PATH = re.compile(r"`([\w./-]+(?:\.py|\.md|\.toml|/))`")


def named(page):
    return sorted(set(PATH.findall((ROOT / page).read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", *(path.relative_to(ROOT).as_posix() for path in PAGES)]
)
def test_every_file_that_is_named_exists(page):
    missing = [path for path in named(page) if not any((ROOT / home / path).exists() for home in HOMES)]
    assert missing == [], f"{page} names files that are not there"


def test_files_that_do_not_exist_would_be_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("see `adobest_pp/nowhere.py` and `adobest_pp/samplers/`", encoding="utf-8")
    assert PATH.findall(page.read_text(encoding="utf-8")) == ["adobest_pp/nowhere.py", "adobest_pp/samplers/"]


def test_the_walk_from_answer_to_report_is_at_most_eight_files():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = text.split("## The way of one answer")[1].split("## ")[0]
    steps = re.findall(r"^\d+\. `(adobest_pp/[\w/]+\.py)`", walk, re.MULTILINE)
    assert 0 < len(steps) <= 8
    assert all((ROOT / step).is_file() for step in steps)
