"""python -m sinew run|bench|info: the programs sinew-run, sinew-bench and sinew-info."""

import sys

from sinew import _programs


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in _programs.NAMES:
        asked = f"'{sys.argv[1]}'" if len(sys.argv) > 1 else "nothing"
        sys.exit(f"python -m sinew: {asked} was asked for, expected one of {', '.join(_programs.NAMES)}; then --help says more")
    _programs.become(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    main()
