"""Calls that take objects of Python. Objects are pickled; they must come from ranks that are trusted.

Calls of Communicator itself take arrays. They are much faster, because they copy and pickle nothing.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import reduce as fold
from typing import TYPE_CHECKING, Any

from sinew._errors import InvalidArgument

if TYPE_CHECKING:
    from sinew._core import Communicator


def _add(a: Any, b: Any) -> Any:
    return a + b


class Objects:
    """The calls of a communicator that take objects. All of them return when the call has ended."""

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def send(self, obj: Any, to: int, tag: int = 0) -> None:
        """Sends an object to a rank, as two messages of this tag: the length, and the pickled object.

        It may wait until the receiver takes them. Two ranks that send to each other at the same time use sendrecv().
        """
        data = _pickled(obj)
        self._communicator.send(array("Q", [len(data)]), to, tag)
        self._communicator.send(data, to, tag)

    def recv(self, from_: int, tag: int = 0) -> Any:
        """Receives an object that this rank's peer sends by send()."""
        length = array("Q", [0])
        self._communicator.recv(length, from_, tag)
        return self._rest(length[0], from_, tag)

    def recv_any(self, tag: int = 0) -> tuple[Any, int]:
        """Receives the next object with this tag from any rank. Returns the object and that rank."""
        length = array("Q", [0])
        source = self._communicator.recv_any(length, tag)
        return self._rest(length[0], source, tag), source

    def sendrecv(self, obj: Any, to: int, from_: int, send_tag: int = 0, recv_tag: int = 0) -> Any:
        """Sends an object and receives another one at the same time."""
        data = _pickled(obj)
        length = array("Q", [0])
        self._communicator.sendrecv(array("Q", [len(data)]), to, length, from_, send_tag, recv_tag)
        other = bytearray(length[0])
        self._communicator.sendrecv(data, to, other, from_, send_tag, recv_tag)
        return pickle.loads(other)

    def broadcast(self, obj: Any = None, root: int = 0) -> Any:
        """Returns the root's object on every rank. Other ranks' objects are ignored."""
        here = self._communicator.rank == root
        data = _pickled(obj) if here else b""
        length = array("Q", [len(data)])
        self._communicator.broadcast(length, root)
        if here:
            self._communicator.broadcast(data, root)
            return obj
        received = bytearray(length[0])
        self._communicator.broadcast(received, root)
        return pickle.loads(received)

    def all_gather(self, obj: Any) -> list[Any]:
        """Returns the objects of all ranks, in the order of the ranks."""
        data = _pickled(obj)
        counts = self._lengths(len(data))
        everything = bytearray(sum(counts))
        self._communicator.all_gather_v(data, everything, counts)
        return _unpickled(everything, counts)

    def gather(self, obj: Any, root: int = 0) -> list[Any] | None:
        """Returns the objects of all ranks at the root, and None elsewhere."""
        data = _pickled(obj)
        if self._communicator.rank != root:
            self._communicator.gather(array("Q", [len(data)]), None, root)
            self._communicator.gather_v(data, None, None, root)
            return None
        counts = array("Q", bytes(8 * self._communicator.size))
        self._communicator.gather(array("Q", [len(data)]), counts, root)
        everything = bytearray(sum(counts))
        self._communicator.gather_v(data, everything, counts, root)
        return _unpickled(everything, counts)

    def scatter(self, objs: Iterable[Any] | None = None, root: int = 0) -> Any:
        """Returns element r of the root's objects on rank r. Other ranks pass None."""
        length = array("Q", [0])
        if self._communicator.rank != root:
            self._communicator.scatter(None, length, root)
            mine = bytearray(length[0])
            self._communicator.scatter_v(None, mine, None, root)
            return pickle.loads(mine)
        all_objs = _one_per_rank("scatter", objs, self._communicator.size)
        data = [_pickled(each) for each in all_objs]
        counts = array("Q", map(len, data))
        self._communicator.scatter(counts, length, root)
        self._communicator.scatter_v(b"".join(data), bytearray(length[0]), counts, root)
        return all_objs[root]

    def all_to_all(self, objs: Iterable[Any]) -> list[Any]:
        """Sends object j to rank j. Returns the objects for this rank, in the order of the ranks."""
        data = [_pickled(each) for each in _one_per_rank("all_to_all", objs, self._communicator.size)]
        sent = array("Q", map(len, data))
        received = array("Q", bytes(8 * len(sent)))
        self._communicator.all_to_all(sent, received)
        everything = bytearray(sum(received))
        self._communicator.all_to_all_v(b"".join(data), everything, sent, received)
        return _unpickled(everything, received)

    def reduce(self, obj: Any, op: Callable[[Any, Any], Any] = _add, root: int = 0) -> Any:
        """Combines the objects in the order of the ranks: op(op(0, 1), 2). None on ranks other than the root."""
        objects = self.gather(obj, root)
        return None if objects is None else fold(op, objects)

    def all_reduce(self, obj: Any, op: Callable[[Any, Any], Any] = _add) -> Any:
        """Combines the objects of all ranks in the order of the ranks, on every rank."""
        return fold(op, self.all_gather(obj))

    def _lengths(self, mine: int) -> array[int]:
        counts = array("Q", bytes(8 * self._communicator.size))
        self._communicator.all_gather(array("Q", [mine]), counts)
        return counts

    def _rest(self, length: int, from_: int, tag: int) -> Any:
        data = bytearray(length)
        self._communicator.recv(data, from_, tag)
        return pickle.loads(data)


def _pickled(obj: Any) -> bytes:
    return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)


def _unpickled(everything: bytearray, counts: Sequence[int]) -> list[Any]:
    objects = []
    at = 0
    with memoryview(everything) as view:
        for count in counts:
            objects.append(pickle.loads(view[at : at + count]))
            at += count
    return objects


def _one_per_rank(call: str, objs: Iterable[Any] | None, size: int) -> list[Any]:
    all_objs = None if objs is None else list(objs)
    if all_objs is None or len(all_objs) != size:
        found = "None" if all_objs is None else f"{len(all_objs)} objects"
        raise InvalidArgument(f"{call}: objs has {found}, expected {size}: one per rank")
    return all_objs
