"""Small models, data and training loops that cases share. Every rank seeds the same model and its own data."""

import torch
from torch import nn
from torch.nn import functional as F

from . import generator

INPUTS, HIDDEN, OUTPUTS = 13, 32, 7


def seeded(make, *arguments):
    torch.manual_seed(1)
    return make(*arguments)


class Layers(nn.Module):
    """Three layers; no size is divisible by 3 or 4, so that shards are uneven."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(INPUTS, HIDDEN + 1)
        self.middle = nn.Linear(HIDDEN + 1, HIDDEN + 1)
        self.last = nn.Linear(HIDDEN + 1, OUTPUTS)

    def forward(self, x):
        return self.last(torch.relu(self.middle(torch.relu(self.first(x)))))


def batch(rank, step, rows=6):
    made = generator(1000 * rank + step)
    return torch.randn(rows, INPUTS, generator=made), torch.randint(0, OUTPUTS, (rows,), generator=made)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(model, rank, steps=4, optimizer=None, loss_of=None):
    """Losses of all steps."""
    optimizer = optimizer or sgd(model)
    losses = []
    for step in range(steps):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        loss = loss_of(model, x, y) if loss_of else F.cross_entropy(model(x).float(), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses


def state(model):
    """All that a model holds, by name: parameters, buffers and gradients; of a DTensor the local part."""
    held = {name: local(value) for name, value in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            held[name + ".grad"] = local(parameter.grad)
    return held


def local(tensor):
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach().clone()
