"""Trains a small model with DistributedDataParallel. All ranks end with the same parameters, and the loss falls.

torchrun --nproc-per-node 2 examples/torch/ddp.py [BACKEND]
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main(backend):
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(rank)  # DDP gives rank 0's parameters to all
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(50):
        x = torch.randn(64, 8)  # each rank draws rows of its own
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()  # gradients are averaged while it runs
        optimizer.step()
        losses.append(loss.item())

    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    everybodys = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(everybodys, mine)
    assert all(torch.equal(mine, other) for other in everybodys), "parameters differ between ranks"
    assert losses[-1] < losses[0] / 2, f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}"
    if rank == 0:
        print(
            f"ddp over {backend}, {size} ranks: loss {losses[0]:.3f} to {losses[-1]:.3f}, parameters equal", flush=True
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BACKEND", "sinew"))
