"""Fully sharded data parallel, both generations: precision, offload to the CPU, hybrid sharding, full state dicts."""

import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict as state_dicts
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn import functional as F

from . import case
from .models import Layers, batch, seeded, sgd, state, train


def mesh_of(place):
    return init_device_mesh(ranks.DEVICE, (place.size,), mesh_dim_names=("data",))


def sharded(mesh, **options):
    model = seeded(Layers)
    for layer in (model.first, model.middle, model.last):
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp2(place, mesh=None, steps=4, **options):
    model = sharded(mesh or mesh_of(place), **options)
    return {"losses": train(model, place.rank, steps), **state(model)}


@case(sums="f32")
def fsdp2_f32(place):
    return fsdp2(place)


@case(sums="f32")
def fsdp2_keep_whole_after_forward(place):
    return fsdp2(place, reshard_after_forward=False)


@case(sums="f32")
def fsdp2_bf16_sums_in_f32(place):
    return fsdp2(place, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32), steps=1)


@case(sums="bf16")
def fsdp2_bf16_sums_in_bf16(place):
    return fsdp2(
        place, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16), steps=1
    )


@case(sums="f32")
def fsdp2_cpu_offload(place):
    return fsdp2(place, offload_policy=CPUOffloadPolicy(pin_memory=False))


@case(sums="f32", least_ranks=4, multiple_of=2)
def fsdp2_hybrid(place):
    return fsdp2(place, init_device_mesh(ranks.DEVICE, (2, place.size // 2), mesh_dim_names=("replicate", "shard")))


@case(sums="f32")
def fsdp2_clip_and_accumulate(place):
    model = sharded(mesh_of(place))
    optimizer = sgd(model)
    norms = []
    for step in range(3):
        optimizer.zero_grad()
        for part in range(2):
            model.set_requires_gradient_sync(part == 1)
            x, y = batch(place.rank, 10 * step + part)
            F.cross_entropy(model(x), y).backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).full_tensor())
        optimizer.step()
    return {"norms": norms, **state(model)}


@case(sums="f32")
def fsdp2_full_state_dict(place):
    model = sharded(mesh_of(place))
    optimizer = sgd(model)
    train(model, place.rank, 2, optimizer)
    whole = state_dicts.StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = state_dicts.get_model_state_dict(model, options=whole)
    momenta = state_dicts.get_optimizer_state_dict(model, optimizer, options=whole)
    other = sharded(mesh_of(place))
    state_dicts.set_model_state_dict(
        other, dict(weights), options=state_dicts.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    restored = {name: value.full_tensor() for name, value in other.state_dict().items()}
    if place.rank == 0:
        assert all(torch.equal(weights[name], restored[name].cpu()) for name in restored)
    return {"weights": dict(weights), "momenta": momenta["state"] if place.rank == 0 else None, "restored": restored}


def fsdp1(place, steps=4, **options):
    policy = ModuleWrapPolicy({nn.Linear})
    model = FullyShardedDataParallel(seeded(Layers), auto_wrap_policy=policy, device_id=torch.device(ranks.DEVICE), **options)
    losses = train(model, place.rank, steps)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        return {"losses": losses, **dict(model.state_dict())}


@case(sums="f32")
def fsdp1_f32(place):
    return fsdp1(place)


@case(sums="f32")
def fsdp1_original_parameters(place):
    return fsdp1(place, use_orig_params=True)


@case(sums="f32")
def fsdp1_shard_gradients_only(place):
    return fsdp1(place, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)


@case(sums="f32")
def fsdp1_bf16_sums_in_f32(place):
    return fsdp1(place, 1, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


@case(sums="bf16")
def fsdp1_bf16_sums_in_bf16(place):
    return fsdp1(place, 1, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))


@case(sums="f32", least_ranks=4, multiple_of=2)
def fsdp1_hybrid(place):
    mesh = init_device_mesh(ranks.DEVICE, (2, place.size // 2), mesh_dim_names=("replicate", "shard"))
    return fsdp1(place, device_mesh=mesh, sharding_strategy=ShardingStrategy.HYBRID_SHARD)


@case(sums="none")
def fsdp2_uses_the_backend(place):
    mesh = mesh_of(place)
    assert dist.get_backend(mesh.get_group()) == place.backend
    return sharded(mesh).first.weight.to_local().detach()
