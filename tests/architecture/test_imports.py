"""Imports go one way (the contract is in pyproject.toml), and a class name stands for one class."""

import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint_imports(settings, folder):
    """Check contracts in a separate process: import-linter turns off the loggers of its own."""
    call = "import sys; from importlinter.cli import lint_imports as lint; sys.path.insert(0, '')\n"
    call += f"sys.exit(lint({str(settings)!r}, no_cache=True, no_logo=True))"
    return subprocess.run([sys.executable, "-c", call], cwd=folder, capture_output=True, text=True, check=False)


def test_every_room_imports_only_from_rooms_below_it():
    done = lint_imports(ROOT / "pyproject.toml", ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("importer", "imported"), [("answers", "samplers"), ("studies", "diagnostics"), ("evidence", "mechanisms")]
)
def test_an_import_that_goes_up_breaks_the_contract(importer, imported, tmp_path):
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
    done = lint_imports(settings, tmp_path)
    assert done.returncode == 1
    assert f"{importer} -> rooms_of_a_test.{imported}" in done.stdout


def test_no_class_name_occurs_twice():
    places = defaultdict(list)
    for path in (ROOT / "adobest_pp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
