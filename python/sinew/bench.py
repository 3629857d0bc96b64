"""python -m sinew.bench: the program sinew-bench."""

import sys

from sinew import _programs

if __name__ == "__main__":
    _programs.become("bench", sys.argv[1:])
