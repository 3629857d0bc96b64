"""Trains a model whose parameters are sharded over all ranks by FSDP2, and compares it with the same model whole.

torchrun --nproc-per-node 2 examples/torch/fsdp2.py [BACKEND]
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches:
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(backend):
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(8, 33), nn.ReLU(), nn.Linear(33, 1))
    data = torch.randn(10, 12 * size, 8)

    sharded = copy.deepcopy(whole)
    mesh = init_device_mesh("cpu", (size,))
    for layer in (sharded[0], sharded[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    train(sharded, [rows.chunk(size)[rank] for rows in data])  # each rank its part of each batch
    train(whole, data)  # every rank all of it

    for ours, theirs in zip(sharded.parameters(), whole.parameters()):
        torch.testing.assert_close(ours.full_tensor(), theirs.detach(), rtol=1e-4, atol=1e-6)
    if rank == 0:
        held = sum(p.to_local().numel() for p in sharded.parameters())
        total = sum(p.numel() for p in whole.parameters())
        print(
            f"fsdp2 over {backend}, {size} ranks: rank 0 holds {held} of {total} elements, equal to the whole model's",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BACKEND", "sinew"))
