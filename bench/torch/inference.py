#!/usr/bin/env python3
"""Times the end of a layer in inference: torch.ops.sinew.all_reduce_add_rms_norm_ beside the calls that it stands for.

    inference.py --sizes 8KiB,64KiB,1MiB --world-size 2 --json out.json

Both ways sum this rank's part over the ranks, add the sum to the residual, and normalize the rows. The separate calls
are dist.all_reduce over sinew, Tensor.add_ and torch.nn.functional.rms_norm. Each call finds buffers that no call of
its round has used, and calls follow each other without a barrier. Rounds of the two ways alternate. A figure is the
median over rounds of the slowest rank's time per call.
"""

import argparse
import json
import statistics
import sys
import time

from collectives import bytes_of, name_of
from launch import dist, launch, slowest, torch
from torch.nn.functional import rms_norm

WIDTH = 4096
MOST_BYTES = 64 << 20  # of the parts of a round


def calls_of(size):
    return max(5, min(500, MOST_BYTES // size))


def fused(group, parts, residual, weight):
    for part in parts:
        torch.ops.sinew.all_reduce_add_rms_norm_(part, residual, weight, 1e-6, group.group_name)


def separate(group, parts, residual, weight):
    for part in parts:
        dist.all_reduce(part, group=group)
        residual.add_(part)
        rms_norm(residual, weight.shape, weight, 1e-6)


def seconds_of(way, group, parts, residual, weight):
    for part in parts:
        part.fill_(0.5)
    residual.fill_(1)
    dist.barrier()
    start = time.perf_counter()
    way(group, parts, residual, weight)
    return (time.perf_counter() - start) / len(parts)


def measure(given):
    """{(size, way): [seconds of a call in each round]}"""
    found = {}
    group = dist.new_group(backend="sinew")
    with torch.inference_mode():
        for size in given.sizes:
            rows = max(size // (2 * WIDTH), 1)
            parts = [torch.empty(rows, WIDTH, dtype=torch.bfloat16) for _ in range(calls_of(size))]
            residual, weight = torch.empty(rows, WIDTH, dtype=torch.bfloat16), torch.ones(WIDTH, dtype=torch.bfloat16)
            for turn in range(-2, given.rounds):
                for way in (fused, separate):
                    took = slowest(seconds_of(way, group, parts, residual, weight))
                    if turn >= 0:  # the first two rounds warm up
                        found.setdefault((size, way.__name__), []).append(took)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--sizes", default="8KiB,64KiB,1MiB", type=lambda text: [bytes_of(each) for each in text.split(",")]
    )
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--json", metavar="FILE")
    given = arguments.parse_args()
    found = launch(given.world_size, lambda rank: measure(given))
    rows = [
        {"bytes": size, "way": way, "median_us": statistics.median(times) * 1e6} for (size, way), times in found.items()
    ]
    for row in rows:
        print(f"{name_of(row['bytes']):10} {row['way']:9} {row['median_us']:12.2f} us")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as out:
            json.dump({"torch": torch.__version__, "world_size": given.world_size, "rows": rows}, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
