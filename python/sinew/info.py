"""python -m sinew.info: the program sinew-info."""

import sys

from sinew import _programs

if __name__ == "__main__":
    _programs.become("info", sys.argv[1:])
