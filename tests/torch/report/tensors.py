"""Tensors: strided, zero-sized, of every dtype, large; and buffers that a call must leave alone."""

import torch
import torch.distributed as dist
from torch import nn

from . import check, in_ranks, sum_of_ranks

ROWS, WIDTH = 5, 3


def matrix(value, dtype=torch.float32, rows=ROWS):
    return torch.full((rows, WIDTH), value, dtype=dtype)


def column_check(place, what, whole, expected, before):
    """Column 1 holds what was expected and its neighbours hold what they held before."""
    check(place, what, whole[:, 1], torch.full((len(whole),), expected, dtype=whole.dtype))
    for column in (0, 2):
        if not torch.equal(whole[:, column], torch.full((len(whole),), before, dtype=whole.dtype)):
            raise AssertionError(f"{what}: column {column} beside the tensor has changed: {whole[:, column].tolist()}")


def in_shared_memory(tensor):
    """Is the tensor in memory that is shared with other processes?"""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            addresses, rights = line.split()[:2]
            first, end = (int(each, 16) for each in addresses.split("-"))
            if first <= tensor.data_ptr() < end:
                return rights.endswith("s")
    return False


@in_ranks()
def tensors_in_memory_of_the_group(place):
    place.start()
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    if not backend.supports_tensor_alloc(torch.device("cpu")):
        return
    kept = []
    for elements, dtype in ((0, torch.float32), (1, torch.int16), (1000, torch.float64), (3 << 20, torch.bfloat16)):
        tensor = backend.allocate_tensor(elements, dtype=dtype, device=torch.device("cpu"))
        if tensor.shape != (elements,) or tensor.dtype != dtype:
            raise AssertionError(f"asked for {elements} {dtype}, found {tensor.shape} {tensor.dtype}")
        if elements > 0 and not in_shared_memory(tensor):
            raise AssertionError(f"a tensor of {elements} {dtype} is in memory of this process alone")
        tensor.fill_(place.rank)
        dist.all_reduce(tensor)
        check(place, f"{elements} {dtype}", tensor, torch.full((elements,), sum_of_ranks(place), dtype=dtype))
        kept.append(tensor)
    model = nn.parallel.DistributedDataParallel(nn.Linear(100, 100), gradient_as_bucket_view=True)
    model(torch.ones(2, 100)).sum().backward()
    if not in_shared_memory(model.module.weight.grad):
        raise AssertionError("the buckets of DistributedDataParallel are in memory of this process alone")
    dist.destroy_process_group()
    check(place, "after the group", kept[-1], torch.full((3 << 20,), sum_of_ranks(place), dtype=torch.bfloat16))


@in_ranks()
def strided_all_reduce(place):
    place.start()
    for rows in (1, 2, 5, 1000, 100_000):
        whole = matrix(float(place.rank), rows=rows)
        dist.all_reduce(whole[:, 1])
        column_check(place, f"a column of {rows}", whole, float(sum_of_ranks(place)), float(place.rank))
    turned = torch.arange(12.0).reshape(3, 4).t()
    dist.all_reduce(turned)
    check(place, "a transposed matrix", turned, torch.arange(12.0).reshape(3, 4).t() * place.size)
    whole = torch.arange(20.0)
    dist.all_reduce(whole[::2], dist.ReduceOp.MAX)
    check(place, "each second element", whole, torch.arange(20.0))
    whole = torch.ones(4, 6)
    dist.all_reduce(whole[1:3, 2:5])
    check(place, "a block", whole.sum(), torch.tensor(18.0 + 6.0 * place.size))


@in_ranks()
def strided_all_reduce_coalesced_and_asynchronous(place):
    place.start()
    wholes = [matrix(float(place.rank + i)) for i in range(3)]
    with dist._coalescing_manager():
        for whole in wholes:
            dist.all_reduce(whole[:, 1])
    for i, whole in enumerate(wholes):
        column_check(place, "coalesced", whole, float(sum_of_ranks(place) + i * place.size), float(place.rank + i))
    whole = matrix(float(place.rank))
    dist.all_reduce(whole[:, 1], async_op=True).wait()
    column_check(place, "asynchronous", whole, float(sum_of_ranks(place)), float(place.rank))


@in_ranks()
def strided_broadcast(place):
    place.start()
    for root in range(place.size):
        whole = matrix(float(place.rank + 10))
        dist.broadcast(whole[:, 1], root)
        column_check(place, f"from {root}", whole, root + 10.0, place.rank + 10.0)


@in_ranks()
def strided_layouts_that_differ_between_ranks(place):
    """The order of elements is that of the indices, whatever their order in memory."""
    place.start()
    values = torch.arange(24.0).reshape(2, 3, 2, 2)
    mine = torch.zeros(2, 3, 2, 2) if place.rank else values.clone()
    if place.rank == 1:
        mine = mine.to(memory_format=torch.channels_last)
    dist.broadcast(mine, 0)
    check(place, "broadcast", mine.contiguous(), values)
    mine = values.to(memory_format=torch.channels_last) if place.rank else values.clone()
    dist.all_reduce(mine)
    check(place, "all_reduce", mine.contiguous(), values * place.size)


@in_ranks()
def strided_reduce(place):
    place.start()
    for root in range(place.size):
        whole = matrix(float(place.rank + 1))
        dist.reduce(whole[:, 1], root)
        expected = sum_of_ranks(place) + place.size if place.rank == root else place.rank + 1
        column_check(place, f"to {root}", whole, float(expected), place.rank + 1.0)


@in_ranks()
def strided_all_gather(place):
    place.start()
    outputs = [matrix(-1.0) for _ in range(place.size)]
    dist.all_gather([output[:, 1] for output in outputs], matrix(float(place.rank))[:, 1])
    for rank, output in enumerate(outputs):
        column_check(place, f"part {rank}", output, float(rank), -1.0)


@in_ranks()
def strided_gather(place):
    place.start()
    outputs = [matrix(-1.0) for _ in range(place.size)]
    views = [output[:, 1] for output in outputs]
    dist.gather(matrix(float(place.rank))[:, 1], views if place.rank == 1 else None, dst=1)
    for rank, output in enumerate(outputs):
        column_check(place, f"part {rank}", output, float(rank) if place.rank == 1 else -1.0, -1.0)


@in_ranks()
def strided_scatter(place):
    place.start()
    whole = matrix(-1.0)
    parts = [matrix(float(rank + 5))[:, 1] for rank in range(place.size)]
    dist.scatter(whole[:, 1], parts if place.rank == 1 else None, src=1)
    column_check(place, "part", whole, place.rank + 5.0, -1.0)


@in_ranks()
def strided_reduce_scatter(place):
    place.start()
    whole = matrix(-1.0)
    dist.reduce_scatter(whole[:, 1], [matrix(float(rank))[:, 1] for rank in range(place.size)])
    column_check(place, "lists", whole, float(place.rank * place.size), -1.0)


@in_ranks()
def strided_all_to_all(place):
    place.start()
    outputs = [matrix(-1.0) for _ in range(place.size)]
    inputs = [matrix(float(10 * place.rank + peer))[:, 1] for peer in range(place.size)]
    dist.all_to_all([output[:, 1] for output in outputs], inputs)
    for peer, output in enumerate(outputs):
        column_check(place, f"from {peer}", output, 10.0 * peer + place.rank, -1.0)


@in_ranks()
def strided_single_tensors(place):
    """Inputs of the forms with one tensor for all ranks are transposed matrices."""
    place.start()
    size = place.size
    turned = (torch.arange(4.0 * size).reshape(4, size) + 100 * place.rank).t()
    everything = torch.empty(size * size, 4)
    dist.all_gather_into_tensor(everything, turned)
    rows = torch.arange(4.0 * size).reshape(4, size).t()
    check(place, "all_gather_into_tensor", everything, torch.cat([rows + 100 * rank for rank in range(size)]))
    part = torch.empty(1, 4)
    dist.reduce_scatter_tensor(part, turned)
    check(place, "reduce_scatter_tensor", part, rows[place.rank : place.rank + 1] * size + 100 * sum_of_ranks(place))
    exchanged = torch.empty(size, 4)
    dist.all_to_all_single(exchanged, turned)
    check(place, "all_to_all_single", exchanged, torch.stack([rows[place.rank] + 100 * rank for rank in range(size)]))


@in_ranks()
def strided_send_and_receive(place):
    place.start()
    if place.rank == 0:
        dist.send(matrix(7.0)[:, 1], 1)
        dist.isend(matrix(8.0)[:, 1], 1).wait()
    elif place.rank == 1:
        for value in (7.0, 8.0):
            whole = matrix(-1.0)
            dist.recv(whole[:, 1], 0)
            column_check(place, "received", whole, value, -1.0)
    dist.barrier()
    if place.control and place.rank != 1:
        raise AssertionError("only the receiver checks")


@in_ranks()
def reduce_leaves_other_ranks_buffers(place):
    place.start()
    for count in (1, 7, 1000, 100_000, 1 << 20):
        for root in range(place.size):
            mine = torch.full((count,), float(place.rank + 1))
            dist.reduce(mine, root)
            expected = sum_of_ranks(place) + place.size if place.rank == root else place.rank + 1
            check(place, f"{count} elements to rank {root}", mine, torch.full((count,), float(expected)))


@in_ranks()
def inputs_stay_as_they_were(place):
    place.start()
    size = place.size
    mine = torch.arange(1000.0 * size) + place.rank
    parts = [part.clone() for part in mine.chunk(size)]
    dist.reduce_scatter_tensor(torch.empty(1000), mine)
    dist.reduce_scatter(torch.empty(1000), parts)
    dist.all_gather_into_tensor(torch.empty(1000 * size * size), mine)
    dist.all_to_all_single(torch.empty_like(mine), mine)
    dist.scatter(torch.empty(1000), parts if place.rank == 0 else None)
    dist.gather(mine, [torch.empty_like(mine) for _ in range(size)] if place.rank == 0 else None)
    check(place, "the input", mine, torch.arange(1000.0 * size) + place.rank)
    check(place, "the input's parts", torch.cat(parts), torch.arange(1000.0 * size) + place.rank)


@in_ranks()
def zero_sized_calls(place):
    place.start()
    size = place.size
    none = torch.empty(0)
    dist.all_reduce(none)
    dist.broadcast(none, 0)
    dist.reduce(none, 0)
    dist.all_gather([torch.empty(0) for _ in range(size)], none)
    dist.all_gather_into_tensor(torch.empty(0), none)
    dist.reduce_scatter_tensor(torch.empty(0), none)
    dist.all_to_all_single(torch.empty(0), none)
    dist.gather(none, [torch.empty(0) for _ in range(size)] if place.rank == 0 else None)
    dist.scatter(none, [torch.empty(0) for _ in range(size)] if place.rank == 0 else None)
    if place.rank == 0:
        dist.send(none, 1)
    if place.rank == 1:
        dist.recv(torch.empty(0), 0)
    dist.all_reduce(torch.empty(3, 0, 2))
    one = torch.tensor(float(place.rank))
    dist.all_reduce(one)
    check(place, "a tensor without dimensions", one, torch.tensor(float(sum_of_ranks(place))))


@in_ranks()
def inference_mode(place):
    place.start()
    with torch.inference_mode():
        value = torch.full((4,), float(place.rank))
        dist.all_reduce(value)
        dist.all_reduce(value, async_op=True).wait()
        outputs = [torch.empty(4) for _ in range(place.size)]
        dist.all_gather(outputs, value)
        dist.broadcast(value, 0)
    expected = torch.full((4,), float(sum_of_ranks(place) * place.size))
    check(place, "sum", value, expected)
    check(place, "gathered", outputs[-1], expected)


@in_ranks()
def requires_grad(place):
    place.start()
    weight = torch.full((4,), float(place.rank), requires_grad=True)
    dist.broadcast(weight.data, 1)
    with torch.no_grad():
        dist.all_reduce(weight)
    check(place, "sum", weight, torch.full((4,), float(place.size)))


@in_ranks(limit_s=120)
def large_64_mib(place):
    place.start()
    value = torch.full((16 << 20,), float(place.rank + 1))
    dist.all_reduce(value)
    check(place, "sum", value, torch.full((16 << 20,), float(sum_of_ranks(place) + place.size)))
    dist.broadcast(value.fill_(place.rank), 1)
    check(place, "broadcast", value, torch.full((16 << 20,), 1.0))
    if place.rank == 0:
        dist.send(value, 1)
    if place.rank == 1:
        dist.recv(value.zero_(), 0)
        check(place, "received", value, torch.full((16 << 20,), 1.0))
    dist.barrier()


@in_ranks(limit_s=600, needs_flag="large")
def large_beyond_2_to_the_31_bytes(place):
    """Needs 3 times 2 GiB of memory for each rank."""
    place.start(timeout_s=600)
    count = 2**31 + 8
    value = torch.full((count,), place.rank + 1, dtype=torch.uint8)
    dist.all_reduce(value)
    ends = torch.cat([value[:8], value[2**31 - 8 :]])
    check(place, "sum", ends, torch.full_like(ends, sum_of_ranks(place) + place.size))
    check(place, "sum everywhere", int(value.max()) - int(value.min()), 0)
    value[-8:] = place.rank + 1
    dist.broadcast(value, 1)
    check(place, "broadcast", value[-8:], torch.full((8,), 2, dtype=torch.uint8))
    if place.rank == 0:
        value[-8:] = 77
        dist.send(value, 1)
    if place.rank == 1:
        dist.recv(value, 0)
        check(place, "received", value[-8:], torch.full((8,), 77, dtype=torch.uint8))
    dist.barrier()
