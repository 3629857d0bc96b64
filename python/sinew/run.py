"""python -m sinew.run: the program sinew-run. The module can be called, because sinew.run is also a function."""

import sys
import types
from collections.abc import Callable
from typing import Any

from sinew import _programs, _run


class _Callable(types.ModuleType):
    """A module that is also the function sinew.run, whatever imported it."""

    def __call__(self, function: Callable[..., Any], ranks: int, *arguments: Any, **options: Any) -> list[Any]:
        return _run.run(function, ranks, *arguments, **options)


if __name__ == "__main__":
    _programs.become("run", sys.argv[1:])
else:
    sys.modules[__name__].__class__ = _Callable
