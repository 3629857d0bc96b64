"""DTensor, tensor parallelism and DeviceMesh."""

import itertools

import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F

from . import case, generator
from .models import seeded

ROWS, COLUMNS = 13, 10  # divisible by neither 3 nor 4


def mesh_of(place):
    return init_device_mesh(ranks.DEVICE, (place.size,))


def whole(dtype=torch.float32, rows=ROWS):
    values = torch.randn(rows, COLUMNS, generator=generator(7)) * 10
    return values > 0 if dtype == torch.bool else values.to(dtype)


def redistributed(place, dtype):
    """Every way from one placement to another."""
    mesh, source = mesh_of(place), whole(dtype)
    found = {}
    for before, after in itertools.permutations([Shard(0), Shard(1), Replicate()], 2):
        spread = distribute_tensor(source, mesh, [before]).redistribute(placements=[after])
        assert torch.equal(spread.full_tensor(), source), (before, after)
        found[f"{before} {after}"] = spread.to_local()
    return found


@case(sums="none")
def dtensor_redistribute_f32(place):
    return redistributed(place, torch.float32)


@case(sums="none")
def dtensor_redistribute_bf16(place):
    return redistributed(place, torch.bfloat16)


@case(sums="none")
def dtensor_redistribute_i64(place):
    return redistributed(place, torch.int64)


@case(sums="none")
def dtensor_redistribute_bool(place):
    return redistributed(place, torch.bool)


def from_partial(place, operator, dtype):
    """Every rank holds whole numbers, so that sums are exact in any order."""
    mesh = mesh_of(place)
    mine = (whole() * (place.rank + 1)).round().to(dtype)
    found = {}
    for after in (Replicate(), Shard(0), Shard(1)):
        partial = DTensor.from_local(mine, mesh, [Partial(operator)])
        found[str(after)] = partial.redistribute(placements=[after]).to_local()
    return found


@case(sums="none")
def dtensor_partial_sum_f32(place):
    return from_partial(place, "sum", torch.float32)


@case(sums="none")
def dtensor_partial_sum_i64(place):
    return from_partial(place, "sum", torch.int64)


@case(sums="bf16")
def dtensor_partial_sum_bf16(place):
    return from_partial(place, "sum", torch.bfloat16)


@case(sums="f32")
def dtensor_partial_average(place):
    return from_partial(place, "avg", torch.float32)


@case(sums="none")
def dtensor_partial_max_min(place):
    return {name: from_partial(place, name, torch.float32) for name in ("max", "min")}


@case(sums="f32")
def dtensor_operators(place):
    mesh = mesh_of(place)
    rows = distribute_tensor(whole(), mesh, [Shard(0)])
    columns = distribute_tensor(whole(), mesh, [Shard(1)])
    results = {
        "product": rows @ columns.t(),
        "sum": rows.sum(),
        "sum of rows": columns.sum(0),
        "mean": rows.mean(),
        "largest": rows.amax(),
        "softmax": columns.softmax(1),
        "norm": torch.linalg.vector_norm(rows),
        "layer norm": F.layer_norm(columns, (COLUMNS,)),
        "added": rows + columns,
        "cat": torch.cat([rows, rows], 1),
        "any": (rows > 20).any(),
        "cumulative": columns.cumsum(1),
        "kept": rows.clamp(0, 1).var(dim=0),
    }
    return {name: value.full_tensor() for name, value in results.items()}


@case(sums="f32")
def dtensor_gradients(place):
    mesh = mesh_of(place)
    x = distribute_tensor(whole(), mesh, [Shard(0)]).requires_grad_()
    w = distribute_tensor(whole(rows=5), mesh, [Replicate()]).requires_grad_()
    ((x @ w.t()).relu().sum() / 100).backward()
    return {"x": x.grad.full_tensor(), "w": w.grad.full_tensor()}


@case(sums="none", least_ranks=4, multiple_of=2)
def dtensor_two_dimensions(place):
    mesh = init_device_mesh(ranks.DEVICE, (2, place.size // 2))
    source = whole()
    spread = distribute_tensor(source, mesh, [Shard(0), Shard(1)])
    other = spread.redistribute(placements=[Replicate(), Shard(0)])
    assert torch.equal(other.full_tensor(), source)
    return {"before": spread.to_local(), "after": other.to_local()}


class Block(nn.Module):
    """Norm, two layers, norm, output: with the layout that sequence parallelism wants."""

    def __init__(self, width=24, classes=36):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 48)
        self.down = nn.Linear(48, width)
        self.norm_after = nn.LayerNorm(width)
        self.output = nn.Linear(width, classes)

    def forward(self, x):
        return self.output(self.norm_after(x + self.down(F.gelu(self.up(self.norm(x))))))


SEQUENCE = {
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "norm_after": SequenceParallel(),
}


def tokens(classes=36):
    made = generator(5)
    return torch.randn(2, 12, 24, generator=made), torch.randint(0, classes, (2, 12), generator=made)


def gradients(model):
    return {
        name: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for name, p in model.named_parameters()
    }


@case(sums="f32")
def tensor_parallel(place):
    model = parallelize_module(seeded(Block), mesh_of(place), {"up": ColwiseParallel(), "down": RowwiseParallel()})
    x, y = tokens()
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    return {"loss": loss.detach(), **gradients(model)}


def sequence_parallel_model(place):
    mesh = mesh_of(place)
    plan = {
        **SEQUENCE,
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    }
    model = parallelize_module(seeded(Block), mesh, plan)
    whole_input = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=False)
    return parallelize_module(model, mesh, whole_input)


@case(sums="f32")
def tensor_parallel_with_sequence_and_loss_parallel(place):
    model = sequence_parallel_model(place)
    x, y = tokens()
    with loss_parallel():
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
    alone = seeded(Block)
    expected = F.cross_entropy(alone(x).flatten(0, 1), y.flatten())
    expected.backward()
    assert torch.allclose(loss.full_tensor(), expected, rtol=1e-5), (loss, expected)
    return {"loss": loss.full_tensor().detach(), **gradients(model)}


@case(sums="f32", least_ranks=4, multiple_of=2)
def tensor_parallel_under_fsdp2(place):
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(ranks.DEVICE, (place.size // 2, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(seeded(Block), mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    x, y = tokens()
    rank = mesh.get_local_rank("data")
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + rank).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses, **gradients(model)}


@case(sums="none", least_ranks=4, multiple_of=2)
def device_mesh_of_two_dimensions(place):
    mesh = init_device_mesh(ranks.DEVICE, (2, place.size // 2), mesh_dim_names=("rows", "columns"))
    found = {"coordinate": mesh.get_coordinate()}
    for name in ("rows", "columns"):
        group = mesh.get_group(name)
        assert dist.get_backend(group) == place.backend
        sum_of_ranks = torch.tensor([float(place.rank)])
        dist.all_reduce(sum_of_ranks, group=group)
        found[name] = sum_of_ranks
    flat = mesh[("rows", "columns")]._flatten("all")
    everything = torch.tensor([float(place.rank)])
    dist.all_reduce(everything, group=flat.get_group())
    return {**found, "all": everything}


@case(sums="none")
def device_mesh(place):
    mesh = init_device_mesh(ranks.DEVICE, (place.size,), mesh_dim_names=("all",))
    assert dist.get_backend(mesh.get_group("all")) == place.backend
    value = torch.tensor([place.rank + 1])
    dist.all_reduce(value, group=mesh.get_group())
    assert value.item() == place.size * (place.size + 1) // 2
    return {"sum": value, "rank": mesh.get_local_rank(), "mesh": mesh.mesh}
