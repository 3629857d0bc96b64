"""DistributedDataParallel of PyTorch over Gloo on two ranks: what communication adds to a backward pass.

The backward pass does nothing but hand over gradients of the given shapes. One step with and one without (no_sync)
communication in turns; prints the median difference of the slower rank in microseconds.
Usage: torch_ddp.py PORT SHAPES STEPS, with 25 MiB buckets.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class HandOver(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gradients, *parameters):
        ctx.gradients = gradients
        return torch.zeros((), requires_grad=True)

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


class Model(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.parts = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(n)) for n in sizes)
        self.gradients = [torch.ones(n) for n in sizes]

    def forward(self):
        # One node for each parameter, so that gradients come one after the other, last first.
        total = torch.zeros(())
        for parameter, gradient in zip(self.parts, self.gradients):
            total = total + HandOver.apply([gradient], parameter)
        return total


def run(rank, port, sizes, steps):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(Model(sizes), bucket_cap_mb=25, gradient_as_bucket_view=True)

    def step():
        model.zero_grad(set_to_none=False)
        loss = model()
        dist.barrier()
        start = time.perf_counter()
        loss.backward()
        return (time.perf_counter() - start) * 1e6

    def without():
        with model.no_sync():
            return step()

    def slower(time_us):
        both = torch.tensor([time_us])
        dist.all_reduce(both, op=dist.ReduceOp.MAX)
        return float(both[0])

    for _ in range(3):
        step()
    pairs = [(slower(step()), slower(without())) for _ in range(steps)]
    step()
    assert float(model.module.parts[0].grad[0]) == 1.0
    if rank == 0:
        print(statistics.median(a - b for a, b in pairs), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as shapes:
        elements = [int(line.split()[1]) for line in shapes if not line.startswith("#")]
    mp.spawn(run, args=(int(sys.argv[1]), elements, int(sys.argv[3])), nprocs=2)
