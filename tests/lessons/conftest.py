"""The server of the lessons as a person starts it, one for all tests that need it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest


class Server(NamedTuple):
    """`adobest teach 1`: what it printed and opened in the browser, and its process."""

    printed: str
    opened: Path
    process: psutil.Process

    @property
    def host(self):
        return re.search(r"127\.0\.0\.1:\d+", self.printed).group()

    @property
    def address(self):
        """Where the lessons are, without the token."""
        return re.search(r"http://127\.0\.0\.1:\d+/[\w-]{12}/", self.printed).group()

    @property
    def token(self):
        return re.search(r"token=([\w-]{43}) ", self.printed).group(1)

    @property
    def cookie(self):
        return f"adobest_{self.host.partition(':')[2]}={self.token}"

    def page(self, name=""):
        """The address of a page, with the token."""
        return f"{self.address}{name}?token={self.token}"


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The server of all tests here. Its browser writes down what it is asked to open."""
    folder = tmp_path_factory.mktemp("teach")
    script = folder / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > "{folder}/part"\nmv "{folder}/part" "{folder}/opened"\n')
    script.chmod(0o755)
    command = [sys.executable, "-m", "adobest_pp", "teach", "1"]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"BROWSER": f"{script} %s", "PYTHONPATH": paths}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder
    ) as process:
        yield Server(process.stdout.readline(), folder / "opened", psutil.Process(process.pid))
        process.send_signal(signal.SIGINT)  # Ctrl-C, after lessons were open
        try:
            assert process.wait(60) == 0
            assert process.stdout.read() == ""
            assert not Path(urlsplit((folder / "opened").read_text()).path).exists()
        finally:
            process.kill()
