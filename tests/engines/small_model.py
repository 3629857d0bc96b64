"""small_model.py: trains a small model with DistributedDataParallel over PyTorch's backend sinew.

Each rank takes every ranks-th row of each batch. Rank 0 trains the same model again by itself, on the whole batches,
and prints whether the losses are equal: they differ by rounding only, in float64.
"""

import collections
import socket

import torch
import torch.distributed as dist

STEPS = 40
ROWS = 48
EQUAL_WITHIN = 1e-12


def new_model():
    torch.manual_seed(1)
    layers = torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)
    return torch.nn.Sequential(*layers).double()


def losses_of(model, rank, ranks):
    """The mean losses of the rows that this rank has, one per step."""
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(ROWS, 16, generator=generator, dtype=torch.float64)
        y = torch.sin(x[:, :4] + x[:, 4:8])
        loss = torch.nn.functional.mse_loss(model(x[rank::ranks]), y[rank::ranks])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def train():
    """Trains in the process group that exists; returns the line to print on rank 0."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    losses = losses_of(torch.nn.parallel.DistributedDataParallel(new_model()), rank, ranks)
    dist.all_reduce(losses)
    losses /= ranks
    all_of = [None] * ranks
    dist.all_gather_object(all_of, socket.gethostname())
    if rank != 0:
        return None
    hosts = collections.Counter(all_of)
    text = " ".join(f"{host}:{count}" for host, count in sorted(hosts.items()))
    worst = (losses - losses_of(new_model(), 0, 1)).abs().max().item()
    right = dist.get_backend() == "sinew" and losses[-1] < losses[0] / 2 and worst <= EQUAL_WITHIN
    values = " ".join(f"{loss:.12f}" for loss in losses.tolist()[:: STEPS - 1])
    verdict = f"losses {'equal' if right else 'WRONG'}: first and last {values}, {worst:.1e} from one process's"
    return f"small_model: {ranks} ranks on {len(hosts)} hosts ({text}), {verdict}"


def main():
    dist.init_process_group("sinew")
    line = train()
    if line is not None:
        print(line, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
