"""Imports go one way (the contract is in pyproject.toml), and a class name stands for one class."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]


def test_every_room_imports_only_from_rooms_below_it(capsys):
    assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("importer", "imported"), [("answers", "samplers"), ("studies", "diagnostics"), ("evidence", "mechanisms")]
)
def test_an_import_that_goes_up_breaks_the_contract(importer, imported, tmp_path, monkeypatch, capsys):
    """A package of the same rooms, each without content except one import."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    package = tmp_path / "rooms_of_a_test"
    package.mkdir()
    (package / "__init__.py").touch()
    names = [name for layer in contract["layers"] for name in layer.replace("|", " ").replace(":", " ").split()]
    for name in names:
        (package / f"{name}.py").touch()
    (package / f"{importer}.py").write_text(f"import rooms_of_a_test.{imported}\n")
    settings = tmp_path / ".importlinter"
    layers = "\n    ".join(contract["layers"])
    settings.write_text(
        "[importlinter]\nroot_package = rooms_of_a_test\n[importlinter:contract:1]\nname = one way\ntype = layers\n"
        f"containers = rooms_of_a_test\nlayers =\n    {layers}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert lint_imports(str(settings), no_cache=True, no_logo=True) == 1
    assert f"{importer} -> rooms_of_a_test.{imported}" in capsys.readouterr().out


def test_no_class_name_occurs_twice():
    places = defaultdict(list)
    for path in (ROOT / "adobest_pp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
