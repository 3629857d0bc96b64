#!/usr/bin/env python3
"""Runs one case for each kind of fault that users have reported against PyTorch's backends for CPU.

    reports.py --backend sinew --world-size 2
    reports.py --backend sinew --world-size 3 --repeat 3 --only 'strided|dead'
    reports.py --backend sinew --control       each check must fail where the fault is left out or the data is changed
    reports.py --list

Each case runs in fresh ranks under a time limit: ranks that hang are killed by id and the case has failed.
Exit: 0 if nothing failed, else 1.
"""

import argparse
import importlib
import re
import sys
import time

import ranks
import report
import torch.distributed as dist

KINDS = ["tensors", "dtypes", "calls", "groups", "faults", "waits", "sites", "processes", "misuse", "inference", "device"]


def in_rank(case):
    def body(place):
        case.body(place)
        if dist.is_initialized():
            dist.destroy_process_group()

    return body


def run_case(case, given):
    """(outcome, reason)"""
    if given.world_size < case.least_ranks:
        return "skipped", f"needs {case.least_ranks} ranks"
    if case.needs_flag and not getattr(given, case.needs_flag):
        return "skipped", f"needs --{case.needs_flag}"
    if case.apart:
        return run_apart(case, given)
    endings = ranks.run(in_rank(case), given.backend, given.world_size, case.limit_s, control=given.control)
    skipped = [ending.skipped for ending in endings if ending.skipped]
    if skipped:
        return "skipped", skipped[0]
    if given.verbose:
        for ending in endings:
            print(ending.output + ending.error)
    trouble = ranks.first_trouble([ending for ending in endings if ending.rank not in case.dying or ending.hung])
    return ("failed", trouble) if trouble else ("passed", "")


def run_apart(case, given):
    try:
        case.body(given)
    except ranks.Skip as reason:
        return "skipped", str(reason)
    except AssertionError as error:
        return "failed", str(error)
    return "passed", ""


def turned(outcome, reason):
    """What a negative control makes of an outcome."""
    if outcome == "passed":
        return "failed", "the negative control has passed"
    return ("passed", reason) if outcome == "failed" else (outcome, reason)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="sinew")
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--only", default="", metavar="REGEX")
    arguments.add_argument("--repeat", type=int, default=1, metavar="K")
    arguments.add_argument(
        "--large", action="store_true", help="also buffers beyond 2^31 bytes (6 GiB of memory per rank)"
    )
    arguments.add_argument("--info", default="", metavar="FILE", help="the program sinew-info, for cases that ask it")
    arguments.add_argument("--long", action="store_true", help="also the cases that take minutes")
    arguments.add_argument("--control", action="store_true", help="negative controls: every case must fail")
    arguments.add_argument("--verbose", action="store_true", help="print what the ranks said")
    arguments.add_argument("--list", action="store_true")
    given = arguments.parse_args()
    for kind in KINDS:
        importlib.import_module(f"report.{kind}")
    cases = [case for case in report.CASES if re.search(given.only, case.name)]
    if given.list:
        print("\n".join(case.name for case in cases))
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for _ in range(given.repeat):
        for case in cases:
            started = time.monotonic()
            outcome, reason = run_case(case, given)
            if given.control:
                outcome, reason = turned(outcome, reason)
            counts[outcome] += 1
            print(
                f"{outcome:8}{time.monotonic() - started:6.1f} s  {case.name}"
                + (f"  ({reason[:300]})" if reason else ""),
                flush=True,
            )
    print(
        f"backend {given.backend}, {given.world_size} ranks: "
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    )
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
