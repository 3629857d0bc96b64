#!/usr/bin/env python3
"""Measures the time that Python adds to an all_reduce. The package and C++ run in turns (A B B A), since the first of a
pair finds colder caches.

    build/release/bin/sinew-run -n 2 build/python/bin/python bench/python/overhead.py
    overhead.py --sizes 8,1MiB --rounds 41 --json out.json

PYTHONPATH names build/release/python. A figure is the median over rounds of the slower rank's time of one call. The
difference and the ratio are medians over rounds of pairs that followed each other.
"""

import argparse
import ctypes
import json
import re
import statistics
import time
from pathlib import Path

import numpy as np

import sinew

SIZES = "8,64,1KiB,64KiB,1MiB,4MiB,16MiB"
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
LOOP = Path(__file__).resolve().parents[2] / "build/release/lib/libbench_python_loop.so"


def bytes_of(text):
    matched = re.fullmatch(r"(\d+)(|KiB|MiB)", text)
    if not matched or int(matched[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': expected a size such as 8, 4KiB or 16MiB")
    return max(8, int(matched[1]) * UNITS[matched[2]] // 8 * 8)


def calls_of(size):
    return max(3, min(4000, (16 << 20) // max(size, 4096)))


def python_seconds(communicator, data, calls):
    all_reduce = communicator.all_reduce
    communicator.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        all_reduce(data, op="max")
    return time.perf_counter() - start


def measure(given, world, loop):
    found = []
    slowest = np.zeros(2)
    for size in given.sizes:
        data = np.ones(size // 8)
        pointer = data.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        calls = calls_of(size)
        python, cpp = [], []
        for turn in range(-3, given.rounds):
            runs = [
                lambda: python_seconds(world.communicator, data, calls),
                lambda: loop.all_reduce_seconds(pointer, data.size, calls),
            ]
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                slowest[which] = runs[which]() / calls
            world.communicator.all_reduce(slowest, op="max")
            if turn >= 0:  # the first rounds warm up
                python.append(slowest[0] * 1e6)
                cpp.append(slowest[1] * 1e6)
        if (data != 1).any():
            raise SystemExit(f"{size} B: wrong data")
        found.append(
            {
                "bytes": size,
                "python_us": statistics.median(python),
                "cpp_us": statistics.median(cpp),
                "more_us": statistics.median(p - c for p, c in zip(python, cpp)),
                "ratio": statistics.median(p / c for p, c in zip(python, cpp)),
            }
        )
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", default=SIZES, type=lambda text: [bytes_of(each) for each in text.split(",")])
    arguments.add_argument("--rounds", type=int, default=41)
    arguments.add_argument("--json", metavar="FILE")
    arguments.add_argument("--loop", default=LOOP, type=Path, help="the library of bench/python/loop.cpp")
    given = arguments.parse_args()
    loop = ctypes.CDLL(str(given.loop))
    loop.all_reduce_seconds.restype = ctypes.c_double
    loop.all_reduce_seconds.argtypes = [ctypes.POINTER(ctypes.c_double), ctypes.c_size_t, ctypes.c_int]
    loop.open_world.restype = ctypes.c_bool
    with sinew.World() as world:
        if not loop.open_world():
            raise SystemExit("the World of C++ could not be made")
        rows = measure(given, world, loop)
        loop.close_world()
        if world.rank != 0:
            return
    print(f"{'bytes':>10}{'Python us':>12}{'C++ us':>12}{'more us':>10}{'ratio':>8}")
    for row in rows:
        print(f"{row['bytes']:10}{row['python_us']:12.2f}{row['cpp_us']:12.2f}{row['more_us']:10.2f}{row['ratio']:8.3f}")
    if given.json:
        Path(given.json).write_text(json.dumps({"rounds": given.rounds, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
