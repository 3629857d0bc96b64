"""sinew: a communication layer for distributed training.

    import sinew
    with sinew.World() as world:
        world.communicator.all_reduce(array)

docs/python.md shows more. `sinew.torch` is the backend for PyTorch. This package needs neither PyTorch nor NumPy.
"""

from typing import TYPE_CHECKING

from sinew._errors import (
    Aborted,
    Cancelled,
    Error,
    InvalidArgument,
    Mismatch,
    PeerLost,
    RankFailed,
    SystemFailure,
    Timeout,
    Truncated,
    Unavailable,
)
from sinew._run import run
from sinew._works import wait_all

if TYPE_CHECKING:
    from sinew._core import (
        CallStats,
        Candidate,
        Cluster,
        Communicator,
        CommunicatorStats,
        Config,
        ConfigEntry,
        Memory,
        Message,
        Plan,
        RankSpot,
        TlsFiles,
        TransportStatus,
        Work,
        World,
        library_version,
        set_log_level,
    )

    __version__: str

_OF_EXTENSION = (
    "CallStats",
    "Candidate",
    "Cluster",
    "Communicator",
    "CommunicatorStats",
    "Config",
    "ConfigEntry",
    "Memory",
    "Message",
    "Plan",
    "RankSpot",
    "TlsFiles",
    "TransportStatus",
    "Work",
    "World",
    "library_version",
    "set_log_level",
)

__all__ = [
    "Aborted",
    "CallStats",
    "Cancelled",
    "Candidate",
    "Cluster",
    "Communicator",
    "CommunicatorStats",
    "Config",
    "ConfigEntry",
    "Error",
    "InvalidArgument",
    "Memory",
    "Message",
    "Mismatch",
    "PeerLost",
    "Plan",
    "RankFailed",
    "RankSpot",
    "SystemFailure",
    "Timeout",
    "TlsFiles",
    "TransportStatus",
    "Truncated",
    "Unavailable",
    "Work",
    "World",
    "library_version",
    "run",
    "set_log_level",
    "wait_all",
]


def __getattr__(name: str) -> object:
    """Loads the extension at its first use: `import torch` imports this package for its entry points."""
    if name in _OF_EXTENSION:
        from sinew import _libraries

        core = _libraries.load_extension()
        for each in _OF_EXTENSION:
            globals()[each] = getattr(core, each)
        return globals()[name]
    if name == "__version__":  # looked up when it is asked for, because that takes longer than all else here
        from importlib.metadata import version

        return version("sinew")
    raise AttributeError(f"module 'sinew' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
