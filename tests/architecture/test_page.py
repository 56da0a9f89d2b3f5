"""docs/architecture.md is right about rooms, words and oracles."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def first_cells(title):
    """Return the first cell of each row of the table below a title."""
    lines = PAGE.split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    return [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")][1:]


def test_every_room_is_in_the_table():
    named = {name for cell in first_cells("The rooms") for name in re.findall(r"`(\w+)`", cell)}
    folders = {path.parent.name for path in (ROOT / "adobest_pp").glob("*/__init__.py")}
    assert folders <= named
    assert all((ROOT / "adobest_pp" / name).is_dir() or (ROOT / f"adobest_pp/{name}.py").is_file() for name in named)


def test_a_word_of_the_glossary_has_one_entry():
    words = first_cells("Glossary")
    assert len(words) >= 30
    assert words == sorted(set(words))


def test_oracles_import_nothing_of_ours():
    for path in (ROOT / "oracles").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith("adobest_pp") for name in names), path.name
