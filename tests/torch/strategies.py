#!/usr/bin/env python3
"""Runs PyTorch's strategies for training on CPU over one backend and compares each result with another backend's.

    strategies.py --backend sinew --world-size 2
    strategies.py --backend sinew --world-size 4 --only 'fsdp|pipeline'
    strategies.py --backend sinew --torchrun
    strategies.py --list

Every case runs in fresh ranks, under the reference first. Results are compared on every rank: bit by bit with two
ranks, and with more ranks where no sum of floats depends on the order of the ranks; else relative to the largest
element (strategy/__init__.py has the tolerances, --list shows which case has which). --torchrun starts a few cases
by torchrun instead, static and elastic. With TEST_DEVICE=cuda the tensors lie on the CUDA devices, and the
reference is NCCL. Exit: 0 if nothing failed, else 1.
"""

import importlib
import os
import re
import subprocess
import sys
import tempfile
import time

import ranks
import strategy
import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map

KINDS = ["collectives", "ddp", "fsdp", "dtensor", "pipeline", "checkpoint", "compiled", "training"]
SMOKE = "ddp_plain|fsdp2_f32|object_collectives|device_mesh|new_groups"


def difference(expected, found, tolerance, where=""):
    """The first difference between two results, in words; empty if there is none."""
    if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
        return tensor_difference(expected, found, tolerance, where)
    if type(expected) is not type(found):
        return f"{where}: {type(expected).__name__} and {type(found).__name__}"
    if isinstance(expected, dict):
        if list(expected) != list(found):
            return f"{where}: keys {list(expected)} and {list(found)}"
        pairs = [(key, expected[key], found[key]) for key in expected]
    elif isinstance(expected, (list, tuple)):
        if len(expected) != len(found):
            return f"{where}: {len(expected)} and {len(found)} entries"
        pairs = list(zip(range(len(expected)), expected, found))
    elif isinstance(expected, float):
        return tensor_difference(torch.tensor(expected), torch.tensor(found), tolerance, where)
    else:
        return "" if expected == found else f"{where}: {expected!r} and {found!r}"
    return next(filter(None, (difference(a, b, tolerance, f"{where}.{key}".lstrip(".")) for key, a, b in pairs)), "")


def tensor_difference(expected, found, tolerance, where):
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        return f"{where}: {expected.dtype} {list(expected.shape)} and {found.dtype} {list(found.shape)}"
    if expected.dtype == torch.bool:  # True is any byte but 0
        expected, found = (as_bytes(tensor) != 0 for tensor in (expected, found))
    if expected.numel() == 0 or torch.equal(as_bytes(expected), as_bytes(found)):
        return ""
    if tolerance == 0 or not expected.is_floating_point():
        return f"{where}: not the same bits, {numbers(expected, found)}"
    if torch.equal(expected, found):  # zeros of either sign are equal
        return ""
    wide, other = expected.double(), found.double()
    off = ((wide - other).abs().max() / wide.abs().max()).item()
    return "" if off <= tolerance else f"{where}: relative difference {off:.2g}, allowed {tolerance:.2g}"


def as_bytes(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def numbers(expected, found):
    unlike = (expected != found).reshape(-1).nonzero().reshape(-1)
    place = int(unlike[0]) if len(unlike) else 0
    return f"first at {place}: {expected.reshape(-1)[place].item()} and {found.reshape(-1)[place].item()}"


def on_cpu(result):
    """The result with copies of its tensors in the memory of the CPU, for the process that compares."""
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, result)


def in_rank(case):
    """What a forked rank does for a case."""

    def body(place):
        place.start()
        result = on_cpu(case.body(place))
        dist.destroy_process_group()
        return result

    return body


def run_case(case, given):
    """(outcome, reason)"""
    reason = case.skipped(given.world_size)
    if reason:
        return "skipped", reason
    results = {}

    def run(backend):
        return ranks.run(in_rank(case), backend, given.world_size, given.limit)

    for role, backend in (("reference", given.reference), ("tested", given.backend)):
        endings = run(backend) if role == "tested" else ranks.run_reference(lambda: run(given.reference))
        skipped = [ending.skipped for ending in endings if ending.skipped]
        if skipped:
            return "skipped", skipped[0]
        trouble = ranks.first_trouble(endings)
        if trouble:
            if given.verbose:
                for ending in endings:
                    print(ending.output + ending.error)
            return "failed", f"under {backend}, {trouble}"
        results[role] = [ending.result for ending in endings]
    return compare(results["reference"], results["tested"], case.tolerance(given.world_size))


def compare(expected, found, tolerance):
    for rank, (a, b) in enumerate(zip(expected, found)):
        unlike = difference(a, b, tolerance)
        if unlike:
            return "failed", f"rank {rank}: {unlike}"
    return "passed", ""


def run_cases(cases, given):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        started = time.monotonic()
        outcome, reason = run_case(case, given)
        counts[outcome] += 1
        print(
            f"{outcome:8}{time.monotonic() - started:6.1f} s  {case.name}" + (f"  ({reason})" if reason else ""),
            flush=True,
        )
    print(
        f"backend {given.backend} against {given.reference}, {given.world_size} ranks: "
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    )
    return counts["failed"]


def under_torchrun(cases, given):
    """What a rank started by torchrun does: all cases in one group of each backend. The group under test meets as
    torchrun wants it. The reference meets through a file, because Gloo cannot be started twice on one store."""
    rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["STRATEGIES_FOLDER"]
    torch.set_num_threads(1)
    cases = [case for case in cases if not case.skipped(size)]
    results = []
    for backend, how in (
        (given.reference, {"init_method": f"file://{folder}/meeting", "rank": rank, "world_size": size}),
        (given.backend, {}),
    ):
        dist.init_process_group(backend, **how)
        results.append([case.body(ranks.Place(backend, rank, size, folder)) for case in cases])
        dist.destroy_process_group()
    failed = 0
    for case, expected, found in zip(cases, *results):
        unlike = difference(expected, found, case.tolerance(size))
        failed += bool(unlike)
        if unlike or rank == 0:
            print(f"{'failed' if unlike else 'passed'} {case.name}, rank {rank}  {unlike}", flush=True)
    return failed


def torchrun(how, given):
    with tempfile.TemporaryDirectory() as folder:
        command = ranks.torchrun(given.world_size, *how, os.path.abspath(__file__), "--backend", given.backend)
        command += ["--reference", given.reference, "--only", given.only]
        done = subprocess.run(
            command, env={**os.environ, "STRATEGIES_FOLDER": folder}, timeout=10 * given.limit, check=False
        )
    return done.returncode != 0


def run_torchrun(given):
    port = ranks.free_port()
    ways = {
        "static": ["--nnodes", "1", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", str(port)],
        "elastic": [
            "--nnodes",
            "1:1",
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            "127.0.0.1:0",
            "--rdzv-id",
            "sinew",
        ],
    }
    failed = 0
    for name, how in ways.items():
        bad = torchrun(how, given)
        failed += bad
        print(f"{'failed' if bad else 'passed'}  torchrun {name}", flush=True)
    return failed


def import_kinds():
    """Fills strategy.CASES."""
    for kind in KINDS:
        importlib.import_module(f"strategy.{kind}")


def main():
    arguments = ranks.against_reference(__doc__, 60)
    arguments.add_argument("--torchrun", action="store_true", help="start a few cases by torchrun, static and elastic")
    given = arguments.parse_args()
    if given.torchrun:
        given.only = given.only or SMOKE
        return 1 if run_torchrun(given) else 0
    import_kinds()
    cases = [case for case in strategy.CASES if re.search(given.only, case.name)]
    if given.list:
        for case in cases:
            print(f"{case.name:50} sums of floats: {case.sums}")
        return 0
    return 1 if (under_torchrun if "RANK" in os.environ else run_cases)(cases, given) else 0


if __name__ == "__main__":
    sys.exit(main())
