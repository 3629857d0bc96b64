"""Distributed checkpoints: save and load, also asynchronous, and onto another layout."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as state_dicts
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from . import case
from .fsdp import mesh_of, sharded
from .models import sgd, train


def state_of(model, optimizer):
    weights, momenta = state_dicts.get_state_dict(model, optimizer)
    return {"weights": weights, "momenta": momenta}


def locals_of(values):
    """The same dictionary with the local part of each DTensor."""
    if isinstance(values, dict):
        return {key: locals_of(value) for key, value in values.items()}
    if isinstance(values, list):
        return [locals_of(value) for value in values]
    return values.to_local().clone() if isinstance(values, DTensor) else values


def trained(place):
    model = sharded(mesh_of(place))
    optimizer = sgd(model)
    train(model, place.rank, 2, optimizer)
    return model, optimizer


def loaded_equals(place, folder, saved, **more):
    """Loads into a model that has trained one step more, and compares bit by bit with what was saved."""
    model, optimizer = trained(place)
    train(model, place.rank, 1, optimizer)
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=folder, **more)
    state_dicts.set_state_dict(model, optimizer, model_state_dict=state["weights"], optim_state_dict=state["momenta"])
    found = locals_of(state_of(model, optimizer))
    for name, value in saved["weights"].items():
        assert torch.equal(value, found["weights"][name]), name
    return found


@case(sums="f32")
def checkpoint_save_and_load(place):
    state = state_of(*trained(place))
    dcp.save(state, checkpoint_id=place.shared("saved"))
    return loaded_equals(place, place.shared("saved"), locals_of(state))


@case(sums="f32", cpu_only="torch wants a group for tensors of the CPU beside one for devices")
def checkpoint_async_save(place):
    """Training goes on while the checkpoint is written, so the writing thread has a group of its own."""
    group = dist.new_group()
    model, optimizer = trained(place)
    state = state_of(model, optimizer)
    saved = locals_of(state)
    saving = dcp.async_save(state, checkpoint_id=place.shared("saved"), process_group=group)
    train(model, place.rank, 3, optimizer)
    saving.result()
    return loaded_equals(place, place.shared("saved"), saved)


@case(sums="none")
def checkpoint_onto_another_layout(place):
    whole = torch.arange(130.0).reshape(13, 10)
    mesh = mesh_of(place)
    dcp.save({"rows": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=place.shared("saved"))
    found = {}
    for placement in (Shard(1), Replicate()):
        state = {"rows": distribute_tensor(torch.zeros(13, 10), mesh, [placement])}
        dcp.load(state, checkpoint_id=place.shared("saved"))
        assert torch.equal(state["rows"].full_tensor(), whole)
        found[str(placement)] = state["rows"].to_local()
    return found
