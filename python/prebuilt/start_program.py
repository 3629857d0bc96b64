#!python
"""Becomes the program of the package sinew that has this command's name."""

import importlib.util
import os
import sys
from pathlib import Path

program = str(Path(importlib.util.find_spec("sinew").origin).parent / "bin" / Path(sys.argv[0]).name)
os.execv(program, [program, *sys.argv[1:]])
