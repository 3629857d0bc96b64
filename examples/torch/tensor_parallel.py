"""Splits the layers of a block over all ranks: columns of the first, rows of the second, the sequence between blocks.

torchrun --nproc-per-node 2 examples/torch/tensor_parallel.py [BACKEND]
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module


class Block(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(self.norm(x))))


def main(backend):
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same model and input on all ranks
    whole = Block()
    x = torch.randn(2, 6 * size, 12)

    plan = {"norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel()}
    split = parallelize_module(copy.deepcopy(whole), init_device_mesh("cpu", (size,)), plan)
    ours, theirs = split(x.chunk(size, 1)[rank]), whole(x)  # each rank normalizes its part of the sequence
    ours.square().sum().backward()
    theirs.square().sum().backward()

    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(split.up.weight.grad.full_tensor(), whole.up.weight.grad, rtol=1e-4, atol=1e-4)
    if rank == 0:
        rows = split.up.weight.to_local().shape[0]
        print(
            f"tensor parallel over {backend}, {size} ranks: rank 0 holds {rows} of {4 * 12} columns, results equal",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BACKEND", "sinew"))
