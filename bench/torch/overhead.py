#!/usr/bin/env python3
"""Times what torch.distributed costs around a call of sinew: all_reduce over PyTorch's backend "fake" and over sinew.

    overhead.py --sizes 8,4MiB --json out.json

"fake" does everything but communicate. Calls follow each other without a pause, as in `sinew-bench --batch`, so that
these times can be compared with those of sinew-bench. Rounds of the two backends alternate. A figure is the median over
rounds of the slowest rank's time per call.
"""

import argparse
import json
import statistics
import sys
import time

from collectives import bytes_of, name_of
from launch import dist, launch, slowest, torch
from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers the backend "fake")


def calls_of(size):
    return 2000 if size <= 1 << 16 else max(5, (64 << 20) // size)


def seconds_of(group, data, calls):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data, group=group)
    return (time.perf_counter() - start) / calls


def check(group):
    data = torch.ones(2)
    dist.all_reduce(data, group=group)
    if data[0] != dist.get_world_size():
        raise RuntimeError(f"the sum is {data[0]}, expected {dist.get_world_size()}")


def measure(given):
    """{(size, backend): [seconds of a call in each round]}"""
    groups = {backend: dist.new_group(backend=backend) for backend in ("fake", "sinew")}
    check(groups["sinew"])
    found = {}
    for size in given.sizes:
        data = torch.zeros(max(size // 4, 1))
        for turn in range(-2, given.rounds):
            for backend, group in groups.items():
                took = slowest(seconds_of(group, data, calls_of(size)))
                if turn >= 0:  # the first two rounds warm up
                    found.setdefault((size, backend), []).append(took)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", default="8,4MiB", type=lambda text: [bytes_of(each) for each in text.split(",")])
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--json", metavar="FILE")
    given = arguments.parse_args()
    found = launch(given.world_size, lambda rank: measure(given))
    rows = [
        {"bytes": size, "backend": backend, "median_us": statistics.median(times) * 1e6}
        for (size, backend), times in found.items()
    ]
    for row in rows:
        print(f"all_reduce {name_of(row['bytes']):10} {row['backend']:6} {row['median_us']:12.2f} us")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as out:
            json.dump({"torch": torch.__version__, "world_size": given.world_size, "rows": rows}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
