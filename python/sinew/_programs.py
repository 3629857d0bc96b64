"""The programs of sinew that the package carries."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

_FOLDER = Path(__file__).parent / "bin"
NAMES = ("run", "bench", "info")


def path_of(name: str) -> str:
    """The file of the program sinew-NAME: the package's own, or the one in PATH.

    Raises SystemExit with one sentence if there is none.
    """
    carried = _FOLDER / f"sinew-{name}"
    found = str(carried) if carried.exists() else shutil.which(f"sinew-{name}")
    if found is None:
        sys.exit(f"sinew-{name} is neither in {_FOLDER} nor in PATH: this package was built without the tools")
    return found


def become(name: str, arguments: list[str]) -> NoReturn:
    """Runs the program in place of this process."""
    program = path_of(name)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, *arguments])
