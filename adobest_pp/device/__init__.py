"""The device in JavaScript: one module, `adobest.js`, for browsers and Node. It ships with the package.

``python -m adobest_pp.device FOLDER`` writes it out.
"""

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path

from adobest_pp._checks import check_path
from adobest_pp._files import write_whole

__all__ = ["integrity", "read_device", "write_device"]

MODULE = "adobest.js"
FILES = (MODULE, "package.json")


def read_device(name: str = MODULE) -> bytes:
    """Return the content of a file of the device: the module, or its ``package.json``."""
    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(FILES)}, got {name!r}")
    return files(__name__).joinpath(name).read_bytes()


def integrity() -> str:
    """Return the hash of the module that pages state in ``integrity="…"`` (Subresource Integrity)."""
    return f"sha384-{base64.b64encode(hashlib.sha384(read_device()).digest()).decode()}"


def write_device(folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
    """Write the module and its ``package.json`` into a folder, for a page or a Node program of your own.

    Parameters
    ----------
    folder : path
        The folder. It is created if it does not exist.
    overwrite : bool, default False
        Whether to replace existing files.

    Returns
    -------
    list of Path
        The files.

    See Also
    --------
    adobest_pp.read_question : The device in Python.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from adobest_pp.device import write_device
    >>> with TemporaryDirectory() as folder:
    ...     [path.name for path in write_device(folder)]
    ['adobest.js', 'package.json']
    """
    target = check_path(folder, "folder")
    target.mkdir(parents=True, exist_ok=True)
    written = [target / name for name in FILES]
    for path in written:
        if path.exists() and not overwrite:
            raise FileExistsError(f"folder must not contain {path.name} already, got {str(target)!r}")
    for path in written:
        write_whole(path, read_device(path.name), overwrite=overwrite)
    return written
