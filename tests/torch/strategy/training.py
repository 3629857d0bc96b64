"""One small real training: a transformer that learns to predict the bytes of this folder's own files."""

import pathlib

import ranks
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from . import case, generator
from .fsdp import mesh_of

CONTEXT, WIDTH, HEADS, LAYERS = 48, 32, 4, 2


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.byte = nn.Embedding(256, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, 256)
        self.register_buffer("mask", torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), 1), persistent=False)

    def forward(self, x):
        y = self.byte(x) + self.position.weight
        for layer in self.layers:
            y = layer(y, src_mask=self.mask)
        return self.output(self.norm(y))


def text():
    files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    return torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)), dtype=torch.uint8).long()


def losses_of(model, place, steps, rate=3e-3):
    """Sums of f64 differ by their order in the last bits only, so that the curves stay together for all steps."""
    corpus = text().to(ranks.DEVICE)
    picks = generator(place.rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        starts = torch.randint(0, len(corpus) - CONTEXT - 1, (8,), generator=picks)
        rows = torch.stack([corpus[start : start + CONTEXT + 1] for start in starts.tolist()])
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    first, last = float(sum(losses[:3])) / 3, float(sum(losses[-3:])) / 3
    assert last < 0.75 * first, f"the loss went from {first:.3f} to {last:.3f} only"
    return losses


def model_of(dtype):
    torch.manual_seed(2)
    return Transformer().to(dtype)


@case(sums="f32")
def training_transformer_ddp(place):
    return losses_of(DDP(model_of(torch.float64)), place, 60)


@case(sums="f32")
def training_transformer_fsdp2(place):
    from torch.distributed.fsdp import fully_shard

    model, mesh = model_of(torch.float64), mesh_of(place)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return losses_of(fully_shard(model, mesh=mesh), place, 60)
