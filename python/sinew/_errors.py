"""The exceptions of sinew. The extension raises them; each is a class for one reason."""

from __future__ import annotations


class Error(Exception):
    """Why a call, or a World, has ended other than well.

    `rank` is the rank, in the communicator concerned, that the error is about. -1: it is about no single rank.
    """

    rank: int

    def __init__(self, message: str, rank: int = -1) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[type[Error], tuple[str, int]]:
        return type(self), (str(self), self.rank)


class InvalidArgument(Error, ValueError):
    """The caller's mistake: the message says what was given and what was expected."""


class Unavailable(Error):
    """Something cannot be had on this machine or in this build; the message says why."""


class Truncated(Error):
    """A message was longer than the array that was given for it."""


class Cancelled(Error):
    """A message that its sender or receiver took back before it was delivered."""


class Timeout(Error, TimeoutError):
    """A deadline passed. The message names the ranks that did not come."""


class PeerLost(Error, ConnectionError):
    """A process of the job is gone. `rank` says which one."""


class Mismatch(Error):
    """Ranks made different calls. The message shows both."""


class Aborted(Error):
    """Somebody ended the communicator or the World. The message is the first reason."""


class SystemFailure(Error, OSError):
    """The operating system refused something. The message has its text."""


class RankFailed(Error):
    """A function that sinew.run() started threw an exception, or its process ended early.

    `rank` says whose. The exception itself is `__cause__`, where it can be pickled, and `traceback` is its text.
    """

    traceback: str

    def __init__(self, message: str, rank: int = -1, traceback: str = "") -> None:
        super().__init__(message, rank)
        self.traceback = traceback
