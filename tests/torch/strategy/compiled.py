"""torch.compile of functions with functional collectives and of a DDP model."""

import shutil

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from . import case
from .models import Layers, batch, seeded, state, train


def mixed(x, group):
    """Whole numbers throughout, so that every order of sums gives the same."""
    total = funcol.all_reduce(x * 2, "sum", group)
    everything = funcol.all_gather_tensor(total + 1, 0, group)
    part = funcol.reduce_scatter_tensor(everything, "sum", 0, group)
    return part + funcol.all_to_all_single(x, None, None, group)


def in_place(x):
    dist.all_reduce(x)
    return x + 1


def compiled(place, compiler):
    torch._inductor.config.compile_threads = 1  # a pool of compilers would be forked by each rank
    x = torch.arange(float(place.size * 3)).reshape(place.size, 3) + place.rank
    expected = mixed(x, dist.group.WORLD).clone()
    found = torch.compile(mixed, backend=compiler, fullgraph=True)(x, dist.group.WORLD)
    assert torch.equal(expected, found), (expected, found)
    plain = torch.compile(in_place, backend=compiler)(x.clone())
    return [found.clone(), plain]


@case(sums="none")
def compile_eager(place):
    return compiled(place, "eager")


@case(sums="none")
def compile_aot_eager(place):
    return compiled(place, "aot_eager")


@case(sums="none")
def compile_inductor(place):
    need_compiler()
    return compiled(place, "inductor")


def need_compiler():
    from ranks import Skip

    if not shutil.which("g++"):
        raise Skip("no compiler for inductor: install g++")


@case(sums="f32")
def compile_ddp(place):
    model = DDP(torch.compile(seeded(Layers), backend="aot_eager"))
    return {"losses": train(model, place.rank, 3), **state(model)}


@case(sums="f32")
def compile_fsdp2(place):
    from .fsdp import mesh_of, sharded

    model = sharded(mesh_of(place))
    step = torch.compile(model, backend="aot_eager")
    x, y = batch(place.rank, 0)
    loss = F.cross_entropy(step(x), y)
    loss.backward()
    return {"loss": loss.detach(), **state(model)}
