#!/usr/bin/env python3
"""Times torch.distributed's all_reduce over several backends in one run, side by side.

    collectives.py --backends gloo,sinew --world-size 2
    collectives.py --backends gloo,sinew --sizes 8,4KiB --rounds 41 --json out.json

Rounds of the backends alternate (A B A B). Before each timed call the input is written and all ranks meet in a barrier
of the backend that is timed. A figure is the median over rounds of the slowest rank's time. Also:
`async_op=True` followed at once by wait(), and dist.new_group. Ratios are the first backend's time over the other's.
"""

import argparse
import json
import re
import statistics
import sys
import time

from launch import dist, launch, slowest, torch

SIZES = "8,4KiB,256KiB,4MiB,64MiB"
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def bytes_of(text):
    matched = re.fullmatch(r"(\d+)(|KiB|MiB)", text)
    if not matched:
        raise argparse.ArgumentTypeError(f"'{text}': expected a size such as 8, 4KiB or 64MiB")
    return int(matched[1]) * UNITS[matched[2]]


def calls_of(size):
    """Calls within one round: short ones are repeated, so that the clock's own cost does not count."""
    return 20 if size <= 1 << 16 else 5 if size <= 1 << 20 else 1


def sync_call(data, group):
    dist.all_reduce(data, group=group)


def async_call(data, group):
    dist.all_reduce(data, group=group, async_op=True).wait()


def seconds_of(call, data, group, calls):
    """Median of single calls, each after a write of the input and a barrier."""
    times = []
    for _ in range(calls):
        data.fill_(1.0)
        dist.barrier(group=group)
        start = time.perf_counter()
        call(data, group)
        times.append(time.perf_counter() - start)
        if data[0] != dist.get_world_size():
            raise RuntimeError(f"the sum is {data[0]}, expected {dist.get_world_size()}")
    return statistics.median(times)


def new_group_seconds(backend):
    dist.barrier()
    start = time.perf_counter()
    group = dist.new_group(backend=backend)
    took = time.perf_counter() - start
    dist.barrier()  # a member of Gloo that is still connecting would fail if another left
    dist.destroy_process_group(group)
    return took


def measure(given):
    """{(what, size, backend): [seconds of each round]}"""
    groups = {backend: dist.new_group(backend=backend) for backend in given.backends}
    found = {}
    for size in given.sizes:
        data = torch.empty(max(size // 4, 1))
        for turn in range(-2, given.rounds):
            for backend, group in groups.items():
                for what, call in (("sync", sync_call), ("async", async_call)):
                    took = slowest(seconds_of(call, data, group, calls_of(size)))
                    if turn >= 0:  # the first two rounds warm up
                        found.setdefault((what, size, backend), []).append(took)
    for turn in range(-2, given.rounds):
        for backend in given.backends:
            took = slowest(new_group_seconds(backend))
            if turn >= 0:
                found.setdefault(("new_group", 0, backend), []).append(took)
    return found


def name_of(size):
    for unit in ("MiB", "KiB"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}"
    return f"{size} B"


def show(found, backends):
    """A table in microseconds; beside each backend but the first, how many times faster it is than the first."""
    head = "".join(
        f"{backend + ' us':>14}" + (f"{'ratio':>8}" if backend != backends[0] else "") for backend in backends
    )
    print(f"{'':24}{head}")
    for what, size in dict.fromkeys((what, size) for what, size, _ in found):
        label = what if what == "new_group" else f"all_reduce {name_of(size)} {what if what != 'sync' else ''}"
        medians = [statistics.median(found[what, size, backend]) * 1e6 for backend in backends]
        cells = "".join(f"{us:14.2f}" + (f"{medians[0] / us:8.2f}" if i else "") for i, us in enumerate(medians))
        print(f"{label:24}{cells}")


def save(found, given):
    rows = [
        {
            "what": what,
            "bytes": size,
            "backend": backend,
            "median_us": statistics.median(times) * 1e6,
            "us": [each * 1e6 for each in times],
        }
        for (what, size, backend), times in found.items()
    ]
    with open(given.json, "w", encoding="utf-8") as out:
        json.dump(
            {"torch": torch.__version__, "world_size": given.world_size, "rounds": given.rounds, "rows": rows},
            out,
            indent=1,
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backends", default="gloo,sinew", type=lambda text: text.split(","), metavar="NAME,..")
    arguments.add_argument("--sizes", default=SIZES, type=lambda text: [bytes_of(each) for each in text.split(",")])
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--json", metavar="FILE")
    given = arguments.parse_args()
    found = launch(given.world_size, lambda rank: measure(given))
    show(found, given.backends)
    if given.json:
        save(found, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
