"""``python -m adobest_pp.device FOLDER`` writes the device in JavaScript into a folder."""

import argparse
import sys

from adobest_pp.device import integrity, write_device


def main() -> None:
    """Write the files, and print their paths and the hash for a page."""
    parser = argparse.ArgumentParser(prog="python -m adobest_pp.device", description="Write adobest.js into a folder.")
    parser.add_argument("folder", help="the folder, which is created if it does not exist")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    given = parser.parse_args()
    try:
        written = write_device(given.folder, overwrite=given.overwrite)
    except (ValueError, OSError) as problem:
        sys.exit(f"adobest_pp.device: {problem}")
    sys.stdout.write("".join(f"wrote {path}\n" for path in written) + f'integrity="{integrity()}"\n')


if __name__ == "__main__":
    main()
