"""A program that serves a poll until it is killed: python -m tests.poll.killed_server POLL PORT."""

import sys
from pathlib import Path

from adobest_pp.poll.server import serve_poll

if __name__ == "__main__":
    serve_poll(Path(sys.argv[1]), port=int(sys.argv[2]))
