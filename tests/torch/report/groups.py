"""Groups that their members make alone, beside a default group of any backend."""

import time

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import check, in_ranks, in_threads


def named_group(place, name, members):
    """Makes a group under a given name. Its members alone call this. Trainers link two jobs in this way.

    torch's new_group() chooses a name that counts the groups which this process has made before. So ranks that make
    groups in unlike orders choose unlike names, and no backend could bring them together.
    """
    store = dist.PrefixStore(name, c10d._get_default_store())
    rank = members.index(place.rank)
    group, _ = c10d._new_process_group_helper(
        len(members), rank, members, place.backend, store, group_name=name, timeout=c10d.default_pg_timeout
    )
    c10d._world.pg_group_ranks[group] = {member: position for position, member in enumerate(members)}
    return group


def made_in_opposite_order(place):
    """Two threads make overlapping groups. Ranks with even and odd numbers begin with different groups."""
    members = [list(range(place.size)), list(range(place.size - 1)) if place.size > 2 else [1, 0]]

    def work(which):
        time.sleep(0.05 * (which ^ (place.rank % 2)))
        group = named_group(place, f"group {which}", members[which])
        for step in range(20):
            value = torch.full((3,), float(place.rank + step))
            dist.all_reduce(value, group=group)
            expected = sum(members[which]) + step * len(members[which])
            check(place, f"group {which}, step {step}", value, torch.full((3,), float(expected)))

    in_threads([which for which in range(2) if place.rank in members[which]], work)


@in_ranks(limit_s=60)
def groups_made_in_opposite_order_by_threads(place):
    place.start()
    made_in_opposite_order(place)


@in_ranks(limit_s=60)
def groups_made_in_opposite_order_beside_gloo(place):
    """The process has no World yet, and two threads make the first ones."""
    dist.init_process_group("gloo", store=place.meet(c10d.default_pg_timeout), rank=place.rank, world_size=place.size)
    made_in_opposite_order(place)


@in_ranks(limit_s=60)
def groups_made_in_opposite_order_beside_a_default_group_without_cpu(place):
    """The default group's backend has no CPU tensors, as with NCCL. PyTorch's backend "fake" stands for NCCL here."""
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers the backend)

    dist.init_process_group("fake", store=place.meet(c10d.default_pg_timeout), rank=place.rank, world_size=place.size)
    made_in_opposite_order(place)


@in_ranks(limit_s=60)
def new_group_beside_gloo(place):
    """As Megatron and vLLM do: the default group has another backend, and a group is made for this one."""
    dist.init_process_group("gloo", store=place.meet(c10d.default_pg_timeout), rank=place.rank, world_size=place.size)
    for members in ([0, 1], list(range(place.size))):
        group = dist.new_group(members, backend=place.backend)
        if place.rank in members:
            value = torch.full((5,), float(place.rank))
            dist.all_reduce(value, group=group)
            check(place, f"ranks {members}", value, torch.full((5,), float(sum(members))))
    if place.control and place.rank > 1:
        raise AssertionError("only the members check")
