"""What tests of polls in a browser share."""

import shutil
import subprocess
import tarfile

import pytest

from tests.report.browser import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The text of axe-core, from npm."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    done = subprocess.run([npm, "pack", "axe-core@4"], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip("axe-core could not be fetched")
    (archive,) = folder.glob("axe-core-*.tgz")
    with tarfile.open(archive) as files:
        return files.extractfile("package/axe.min.js").read().decode()
