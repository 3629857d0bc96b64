"""Loads the libraries that the package carries."""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent / "lib"

# Libraries that the package expects of the system, and the Debian packages that have them. All others are in FOLDER.
_PACKAGES = {
    "libcrypto.so.3": "libssl3",
    "libssl.so.3": "libssl3",
    "libstdc++.so.6": "libstdc++6",
    "libudev.so.1": "libudev1",
}


def load() -> None:
    """Loads sinew's libraries, by which an extension that names them finds these, wherever the extension's own file is.

    Raises ImportError, which names the Debian package if a library of the system is missing.
    """
    try:
        ctypes.CDLL(str(FOLDER / "libsinew_collectives.so"))
    except OSError as error:
        raise ImportError(_explained(str(error))) from None


def load_extension() -> ModuleType:
    """Loads the extension of this package, sinew._core.

    Raises ImportError, which says what to do if the package has no extension, or if a library is missing.
    """
    if FOLDER.exists():
        load()
    try:
        return importlib.import_module("sinew._core")
    except ModuleNotFoundError as error:
        if error.name != "sinew._core":
            raise
        raise ImportError(
            f"the package sinew in {FOLDER.parent} has no extension for this Python: pip install . in a clone, or put "
            "build/release/python into PYTHONPATH after ./run build",
            name="sinew._core",
        ) from None


def _explained(error: str) -> str:
    missing = error.partition(":")[0]
    if missing in _PACKAGES:
        return f"sinew needs {missing}, which this machine does not have: apt-get install {_PACKAGES[missing]}"
    return f"sinew's libraries cannot be loaded here ({error}): build the package on this machine by pip install . in a clone"
