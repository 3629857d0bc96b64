"""Ranks for tests: threads of this process, each with a World, and the arrays that the tests send."""

import threading
import traceback

import ml_dtypes
import numpy as np

import sinew

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


class Meeting:
    """An exchange between threads, for World.create."""

    def __init__(self, size):
        self._barrier = threading.Barrier(size)
        self._slots = [b""] * size

    def of_rank(self, rank):
        def all_gather(mine):
            self._slots[rank] = mine
            self._barrier.wait(60)
            everything = list(self._slots)
            self._barrier.wait(60)
            return everything

        return all_gather


def world_of_thread(meeting, rank, size, **options):
    options.setdefault("timeout", 60)
    return sinew.World.create(rank, size, meeting.of_rank(rank), **options)


def in_threads(size, body, device_of_rank=False, **options):
    """Runs body(world) on `size` ranks that are threads. Returns their results. Raises the first failure.

    device_of_rank: rank r uses device r.
    """
    meeting = Meeting(size)
    results, failures = [None] * size, []

    def rank_of(rank):
        try:
            with world_of_thread(meeting, rank, size, **options, device=rank if device_of_rank else -1) as world:
                results[rank] = body(world)
        except BaseException as error:
            failures.append((error, traceback.format_exc()))

    threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if failures:
        raise AssertionError("\n".join(text for _, text in failures)) from failures[0][0]
    return results


def values(name, count, rank, most=2):
    """Whole numbers that differ between ranks, small enough that sums are exact in every dtype."""
    return ((np.arange(count) + rank) % (most + 1)).astype(dtype(name))
