"""``python -m adobest_pp`` is the same as ``adobest``."""

from adobest_pp.cli import main

main()
