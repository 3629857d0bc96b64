"""sinew.run(function, ranks): starts a function in several processes of this host."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from sinew._errors import Aborted, InvalidArgument, PeerLost, RankFailed, Timeout

T = TypeVar("T")

# A rank that fails ends the calls of the others. Their failures may arrive first. The rank's own one is raised.
_SECONDS_FOR_THE_FIRST_FAILURE = 1.0
_SECONDS_TO_END = 2.0
_FOLLOWS_ANOTHER = (Aborted, PeerLost, Timeout)
_PR_SET_PDEATHSIG = 1


def run(function: Callable[..., T], ranks: int, *arguments: Any, timeout: float | None = None) -> list[T]:
    """Runs function(*arguments) in `ranks` new processes of this host. Returns the results in the order of the ranks.

    In each process sinew.World() finds the others. `function`, `arguments` and the results are pickled. If cloudpickle
    is installed, it pickles them. Otherwise pickle does so, which knows functions of modules alone. As with
    multiprocessing, a script calls run() under `if __name__ == "__main__":`.

    Raises RankFailed, with the rank and its traceback, if a rank throws an exception or ends early. The other ranks are
    ended. Raises Timeout if the ranks have not ended after `timeout` seconds. No process outlives the call.
    """
    if not isinstance(ranks, int) or ranks < 1:
        raise InvalidArgument(f"run: ranks is {ranks!r}, expected a whole number from 1 on")
    if not callable(function):
        raise InvalidArgument(f"run: function is a {type(function).__name__}, expected a function")
    try:
        work = _dumps((function, arguments))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"run: the function or an argument cannot be pickled ({error}); expected a function of a module, or pip install "
            "cloudpickle"
        ) from error
    with _Job(ranks, work) as job:
        return job.results(None if timeout is None else time.monotonic() + timeout)


class _Job:
    """The processes of one call of run()."""

    def __init__(self, ranks: int, work: bytes) -> None:
        self._ranks = ranks
        self._work = work
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._connections: list[Connection] = []

    def __enter__(self) -> _Job:
        spawn = multiprocessing.get_context("spawn")
        name = f"sinew.run-{os.getpid()}-{time.monotonic_ns()}"
        try:
            for rank in range(self._ranks):
                here, there = spawn.Pipe(duplex=False)
                self._connections.append(here)
                process = spawn.Process(
                    target=_rank, args=(rank, self._ranks, name, os.getpid(), self._work, there), name=f"rank {rank}", daemon=False
                )
                self._processes.append(process)
                process.start()
                there.close()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def results(self, until: float | None) -> list[Any]:
        left = {connection: rank for rank, connection in enumerate(self._connections)}
        results: list[Any] = [None] * self._ranks
        failures: list[RankFailed] = []
        while left:
            if failures and not isinstance(failures[-1].__cause__, _FOLLOWS_ANOTHER):
                break
            ready = wait(list(left), None if until is None else max(0.0, until - time.monotonic()))
            if not ready:
                if failures:
                    break
                raise Timeout(f"run: ranks {', '.join(map(str, sorted(left.values())))} have not ended in time")
            for connection in ready:
                assert isinstance(connection, Connection)
                rank = left.pop(connection)
                outcome = self._outcome(rank, connection)
                if isinstance(outcome, RankFailed):
                    failures.append(outcome)
                    if len(failures) == 1:
                        latest = time.monotonic() + _SECONDS_FOR_THE_FIRST_FAILURE
                        until = latest if until is None else min(until, latest)
                else:
                    results[rank] = outcome[0]
        if failures:
            raise next((f for f in failures if not isinstance(f.__cause__, _FOLLOWS_ANOTHER)), failures[0])
        for process in self._processes:
            process.join()
        return results

    def _outcome(self, rank: int, connection: Connection) -> tuple[Any] | RankFailed:
        try:
            kind, content = connection.recv()
        except EOFError:
            process = self._processes[rank]
            process.join(_SECONDS_TO_END)
            return RankFailed(f"rank {rank} ended {_ending(process.exitcode)} before its function returned", rank)
        if kind == "result":
            return (pickle.loads(content),)
        text, pickled = content
        failure = RankFailed(f"rank {rank} failed: {text.strip().splitlines()[-1]}\n\nOn rank {rank}:\n{text}", rank, text)
        with contextlib.suppress(Exception):  # one that cannot be unpickled here is left out; its text is there
            failure.__cause__ = pickle.loads(pickled) if pickled else None
        return failure

    def _end(self) -> None:
        """Ends what still runs: by SIGTERM, and after a while by SIGKILL."""
        started = [process for process in self._processes if process.pid is not None]
        for process in started:
            if process.is_alive():
                process.terminate()
        until = time.monotonic() + _SECONDS_TO_END
        for process in started:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for connection in self._connections:
            connection.close()


def _ending(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        return f"by signal {-exitcode}"
    return f"with exit code {exitcode}"


def _dumps(value: Any) -> bytes:
    try:
        pickler = importlib.import_module("cloudpickle")
    except ModuleNotFoundError:
        return pickle.dumps(value)
    data: bytes = pickler.dumps(value)
    return data


def _set_variables(rank: int, ranks: int, job: str) -> None:
    """Sets the variables by which sinew.World() finds the other ranks, which meet on a socket of this host."""
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(ranks),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",  # names that socket together with the job; no port is opened
        SINEW_JOB=job,
        SINEW_ALONE="0",
    )


def _rank(rank: int, ranks: int, job: str, parent: int, work: bytes, connection: Connection) -> None:
    """Runs in the process of a rank. SIGINT from a terminal reaches all ranks; the parent ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)
    _set_variables(rank, ranks, job)
    message: tuple[str, Any]
    try:
        function, arguments = pickle.loads(work)
        message = ("result", _dumps(function(*arguments)))
    except BaseException as error:
        message = ("failure", (traceback.format_exc(), _exception(error)))
    connection.send(message)
    connection.close()


def _exception(error: BaseException) -> bytes:
    try:
        data = _dumps(error)
        pickle.loads(data)
        return data
    except Exception:
        return b""
