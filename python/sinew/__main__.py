"""python -m sinew run|bench|info: the programs sinew-run, sinew-bench and sinew-info."""

import sys

from sinew import _programs

_USAGE = """\
usage: python -m sinew PROGRAM ARGUMENTS

  run    starts the ranks of a job: python -m sinew run -n 2 python script.py
  bench  measures collectives
  info   shows what this machine is made of, and what would run here

python -m sinew PROGRAM --help says more of each. python -m sinew --version names the version and the commit.
"""


def main() -> None:
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    if asked in ("-h", "--help", "help"):
        print(_USAGE, end="")
    elif asked == "--version":
        _programs.become("info", ["--version"])
    elif asked in _programs.NAMES:
        _programs.become(asked, sys.argv[2:])
    else:
        found = f"'{asked}' was asked for" if asked else "nothing was asked for"
        print(f"python -m sinew: {found}, expected one of {', '.join(_programs.NAMES)}; --help says more", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
