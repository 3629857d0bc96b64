#!/usr/bin/env python3
"""Times what communication adds to a training step, over several backends in one run, side by side.

    training.py --backends gloo,sinew --world-size 2
    training.py --backends gloo,sinew --only fsdp2 --steps 41 --json out.json

ddp: DistributedDataParallel with 33.6 MB of gradients. fsdp2: fully_shard of a small transformer.
The time of communication is that of a step minus that of the same step without communication. For ddp, the step without
has a communication hook that only divides the gradients. For fsdp2, it uses PyTorch's backend "fake", which does
everything but communicate. Steps of all backends alternate. Each figure is the median over steps of the slowest rank's
time. Ratios are the first backend's time over the other's.
"""

import argparse
import json
import statistics
import sys
import time

from launch import dist, launch, slowest, torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers the backend "fake")

WIDTH, LAYERS, ROWS = 1024, 8, 4  # 8 layers of 1024 * 1024 + 1024 elements of f32: 33.6 MB


def layers():
    torch.manual_seed(1)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])


class Transformer(nn.Module):
    """Four blocks of width 256: 3.4 million parameters."""

    def __init__(self, width=256, blocks=4):
        super().__init__()
        torch.manual_seed(1)
        self.byte = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(blocks)
        )
        self.output = nn.Linear(width, 256)

    def forward(self, x):
        y = self.byte(x)
        for block in self.blocks:
            y = block(y)
        return self.output(y)


def seconds_of(step):
    dist.barrier()
    start = time.perf_counter()
    step()
    return slowest(time.perf_counter() - start)


def ddp_steps(backends):
    """{backend: (step with communication, step without)}; a step is a forward and a backward pass."""
    without = ddp_step(backends[0], divide_alone)
    return {backend: (ddp_step(backend), without) for backend in backends}


def ddp_step(backend, hook=None):
    model = nn.parallel.DistributedDataParallel(
        layers(), process_group=dist.new_group(backend=backend), gradient_as_bucket_view=True
    )
    if hook:
        model.register_comm_hook(None, hook)
    x = torch.randn(ROWS, WIDTH)

    def step():
        model(x).sum().backward()

    return step


def divide_alone(state, bucket):
    """A hook that does what DistributedDataParallel does to a bucket, without the all_reduce."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer().div_(dist.get_world_size()))
    return future


def fsdp2_steps(backends):
    without = fsdp2_step("fake")
    return {backend: (fsdp2_step(backend), without) for backend in backends}


def fsdp2_step(backend):
    mesh = DeviceMesh.from_group(dist.new_group(backend=backend), "cpu")
    model = Transformer()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randint(0, 256, (2, 32))

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
        optimizer.step()

    return step


KINDS = {"ddp": ddp_steps, "fsdp2": fsdp2_steps}


def measure(given):
    """{(kind, backend): {"step": [...], "communication": [...]}} in seconds"""
    found = {}
    for kind in [kind for kind in KINDS if given.only in ("", kind)]:
        steps = KINDS[kind](given.backends)
        for turn in range(-3, given.steps):
            for backend, (whole, without) in steps.items():
                took, alone = seconds_of(whole), seconds_of(without)
                if turn >= 0:  # the first three steps warm up
                    row = found.setdefault((kind, backend), {"step": [], "communication": []})
                    row["step"].append(took)
                    row["communication"].append(took - alone)
    return found


def show(found, backends):
    head = "".join(
        f"{backend + ' us':>14}" + (f"{'ratio':>8}" if backend != backends[0] else "") for backend in backends
    )
    print(f"{'':24}{head}")
    for kind in dict.fromkeys(kind for kind, _ in found):
        for what in ("step", "communication"):
            medians = [statistics.median(found[kind, backend][what]) * 1e6 for backend in backends]
            cells = "".join(f"{us:14.0f}" + (f"{medians[0] / us:8.2f}" if i else "") for i, us in enumerate(medians))
            print(f"{kind + ' ' + what:24}{cells}")


def save(found, given):
    rows = [
        {
            "kind": kind,
            "backend": backend,
            **{what + "_us": [each * 1e6 for each in times] for what, times in row.items()},
        }
        for (kind, backend), row in found.items()
    ]
    with open(given.json, "w", encoding="utf-8") as out:
        json.dump({"torch": torch.__version__, "world_size": given.world_size, "rows": rows}, out, indent=1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backends", default="gloo,sinew", type=lambda text: text.split(","), metavar="NAME,..")
    arguments.add_argument("--only", default="", choices=["", *KINDS])
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--steps", type=int, default=21)
    arguments.add_argument("--json", metavar="FILE")
    given = arguments.parse_args()
    found = launch(given.world_size, lambda rank: measure(given))
    show(found, given.backends)
    if given.json:
        save(found, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
