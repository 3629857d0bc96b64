"""Runs a model whose layers lie on different ranks, with micro-batches under the 1F1B schedule.

torchrun --nproc-per-node 2 examples/torch/pipeline.py [BACKEND]
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def layer(index, width=16):
    torch.manual_seed(index)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh())


def main(backend):
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(100)
    x, y = torch.randn(24, 16), torch.randn(24, 16)

    mine = layer(rank)
    schedule = Schedule1F1B(
        PipelineStage(mine, rank, size, torch.device("cpu")), n_microbatches=8, loss_fn=nn.functional.mse_loss
    )
    losses = []
    if rank == size - 1:
        schedule.step(*([x] if rank == 0 else []), target=y, losses=losses)
    else:
        schedule.step(*([x] if rank == 0 else []))

    whole = nn.Sequential(*[layer(index) for index in range(size)])  # the same on one rank
    loss = sum(nn.functional.mse_loss(whole(a), b) for a, b in zip(x.chunk(8), y.chunk(8))) / 8
    loss.backward()
    torch.testing.assert_close(mine[0].weight.grad, whole[rank][0].weight.grad, rtol=1e-4, atol=1e-6)
    if rank == size - 1:
        torch.testing.assert_close(sum(losses) / 8, loss, rtol=1e-4, atol=1e-6)
        print(
            f"pipeline over {backend}, {size} stages, 8 micro-batches: loss {loss.item():.4f} and gradients equal",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BACKEND", "sinew"))
