"""One decoding step of a model that is split over all ranks, compiled, with sinew's all-reduce as an operator.

    torchrun --nproc-per-node 2 examples/torch/inference.py [COMPILER]

COMPILER is a backend of torch.compile: inductor (the default; needs a C++ compiler), aot_eager or eager.
`torch.ops.sinew.all_reduce(tensor, operator, group name)` returns a new tensor and leaves its input alone.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn


class Layer(nn.Module):
    """This rank's part of the hidden units; the sum over ranks is the whole layer's output."""

    def __init__(self, up, down, rank, size):
        super().__init__()
        self.up = nn.Parameter(up.chunk(size, 0)[rank])
        self.down = nn.Parameter(down.chunk(size, 1)[rank])
        self.group = dist.group.WORLD.group_name

    def forward(self, x):
        part = torch.relu(x @ self.up.t()) @ self.down.t()
        return x + torch.ops.sinew.all_reduce(part, "sum", self.group)


def main(compiler):
    dist.init_process_group("sinew")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    weights = [(torch.randn(32 * size, 16) / 10, torch.randn(16, 32 * size) / 10) for _ in range(4)]
    model = torch.compile(
        nn.Sequential(*[Layer(up, down, rank, size) for up, down in weights]), backend=compiler, fullgraph=True
    )

    x = torch.randn(1, 16)
    with torch.inference_mode():
        for _ in range(10):
            found = model(x)
    expected = x
    for up, down in weights:
        expected = expected + torch.relu(expected @ up.t()) @ down.t()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if rank == 0:
        print(f"inference over sinew, {size} ranks, compiled by {compiler}: output equals that of one rank", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "inductor")
