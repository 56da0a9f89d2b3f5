"""``python -m adobest_pp`` is the same as ``adobest``."""

from adobest_pp.cli.main import main

main()
