"""Calls that cannot work, or that seldom do: each has the right result, or one error that says what was expected."""

import datetime
import os
import time
import traceback

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import check, in_ranks, raises, sum_of_ranks


def backend_of(group=None):
    return (group or c10d._get_default_group())._get_backend(torch.device("cpu"))


@in_ranks()
def timeouts_without_an_end(place):
    """A timeout of a thousand years is one that never ends, and not one that has ended already."""
    ages = datetime.timedelta(seconds=1 if place.control else 365_000 * 24 * 3600)
    store = place.meet(datetime.timedelta(seconds=20))
    dist.init_process_group(place.backend, store=store, rank=place.rank, world_size=place.size, timeout=ages)
    group = dist.new_group(list(range(place.size)), timeout=ages)
    dist.barrier()
    if place.rank == 1:
        time.sleep(1.5 if place.control else 0.3)
    for each in (None, group):
        value = torch.ones(3)
        work = dist.all_reduce(value, group=each, async_op=True)
        work.wait(ages)
        check(place, "late", value, torch.full((3,), float(place.size)))


@in_ranks()
def timeouts_that_are_none(place):
    store = place.meet(datetime.timedelta(seconds=20))
    place.start(store=dist.PrefixStore("works", store))
    everybody = list(range(place.size))
    for timeout in (datetime.timedelta(0), datetime.timedelta(seconds=-1), datetime.timedelta.max):
        given = datetime.timedelta(seconds=5) if place.control else timeout
        raises(f"{timeout}", lambda: dist.new_group(everybody, timeout=given), "expected 1 ms or more", most_s=2)
        raises(f"{timeout}, later", lambda: c10d._set_pg_timeout(given), "expected 1 ms or more", most_s=2)
    value = torch.ones(3)
    dist.all_reduce(value)
    check(place, "afterwards", value, torch.full((3,), float(place.size)))
