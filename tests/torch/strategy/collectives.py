"""Plain, functional, autograd, object and coalesced collectives, messages, groups and threads."""

import threading

import ranks
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional as autograd

from . import case, generator

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WHOLE = [torch.uint8, torch.int8, torch.int32, torch.int64]


def numbers(place, dtype, count=11):
    """Small whole numbers of this rank: their sums and products are exact in all formats."""
    made = generator(place.rank)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=made) > 0
    return torch.randint(1, 5, (count,), generator=made).to(dtype)


@case(sums="none")
def all_reduce_operators(place):
    operators = {
        "sum": dist.ReduceOp.SUM,
        "product": dist.ReduceOp.PRODUCT,
        "min": dist.ReduceOp.MIN,
        "max": dist.ReduceOp.MAX,
    }
    bits = {"and": dist.ReduceOp.BAND, "or": dist.ReduceOp.BOR, "xor": dist.ReduceOp.BXOR}
    found = {}
    for dtype in [*FLOATS, *WHOLE, torch.bool]:
        for name, operator in {**operators, **({} if dtype.is_floating_point or ranks.DEVICE == "cuda" else bits)}.items():
            value = numbers(place, dtype)
            dist.all_reduce(value, operator)
            found[f"{dtype} {name}"] = value
    return found


@case(sums="f32")
def all_reduce_average(place):
    value = torch.randn(1001, generator=generator(place.rank))
    dist.all_reduce(value, dist.ReduceOp.AVG)
    return value


@case(sums="f32")
def all_reduce_lengths(place):
    found = {}
    for count in (1, 2, 3, 17, 1000, 4099, 65537, 1 << 20):
        value = torch.randn(count, generator=generator(place.rank))
        dist.all_reduce(value)
        found[str(count)] = value
    return found


@case(sums="none")
def collectives_that_move(place):
    size, rank = place.size, place.rank
    found = {}
    for dtype in [*FLOATS, *WHOLE, torch.bool]:
        mine = numbers(place, dtype, 4 * size)
        everything = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(everything, mine)
        flat = torch.empty(4 * size * size, dtype=dtype)
        dist.all_gather_into_tensor(flat, mine)
        exchanged = torch.empty_like(mine)
        dist.all_to_all_single(exchanged, mine)
        sent = mine.clone()
        dist.broadcast(sent, size - 1)
        gathered = [torch.empty_like(mine) for _ in range(size)] if rank == 1 else None
        dist.gather(mine, gathered, dst=1)
        part = torch.empty(4, dtype=dtype)
        dist.scatter(part, list(mine.chunk(size)) if rank == 1 else None, src=1)
        found[str(dtype)] = [everything, flat, exchanged, sent, gathered, part]
    return found


@case(sums="none")
def collectives_that_reduce(place):
    found = {}
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        mine = numbers(place, dtype, 3 * place.size)
        reduced = mine.clone()
        dist.reduce(reduced, 0)
        part = torch.empty(3, dtype=dtype)
        dist.reduce_scatter_tensor(part, mine.clone())
        listed = torch.empty(3, dtype=dtype)
        dist.reduce_scatter(listed, list(mine.clone().chunk(place.size)))
        found[str(dtype)] = [reduced if place.rank == 0 else None, part, listed]
    return found


@case(sums="none")
def uneven_splits(place):
    size, rank = place.size, place.rank
    sends = [rank + peer for peer in range(size)]
    mine = torch.arange(sum(sends), dtype=torch.float32) + 100 * rank
    received = torch.empty(sum(sends))  # rank + peer is symmetric
    dist.all_to_all_single(received, mine, sends, sends)
    return received


@case(sums="none", cpu_only="sinew takes no sparse tensors on a device")
def sparse_all_reduce(place):
    rows = torch.arange(place.rank + 2)
    mine = torch.sparse_coo_tensor(
        rows.unsqueeze(0), torch.ones(place.rank + 2, 3) * (place.rank + 1), (place.size + 2, 3)
    )
    dist.all_reduce(mine)
    return mine.to_dense()


@case(sums="none")
def messages(place):
    """A ring with blocking calls, one with isend and irecv, and a batch of both. Only the CPU's messages match by tag:
    torch's NCCL ignores tags and pairs messages in the order of the calls."""
    right, left = (place.rank + 1) % place.size, (place.rank - 1) % place.size
    mine = numbers(place, torch.float32)
    found = [torch.zeros_like(mine) for _ in range(4)]
    if place.rank % 2 == 0:
        dist.send(mine, right)
        dist.recv(found[0], left)
    else:
        dist.recv(found[0], left)
        dist.send(mine, right)
    works = [
        dist.isend(mine, right, tag=2),
        dist.isend(mine * 2, right, tag=1),
    ]
    tags = (1, 2) if ranks.DEVICE == "cpu" else (2, 1)
    works += [dist.irecv(found[1], left, tag=tags[0]), dist.irecv(found[2], left, tag=tags[1])]
    for work in works:
        work.wait()
    batch = [dist.P2POp(dist.isend, mine + 1, right), dist.P2POp(dist.irecv, found[3], left)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    return found


@case(sums="none")
def asynchronous_calls(place):
    values = [numbers(place, torch.float32, 100 + i) for i in range(20)]
    works = [dist.all_reduce(value, async_op=True) for value in values]
    for work in reversed(works):
        work.wait()
    if ranks.DEVICE == "cuda":  # there wait() orders streams, and the calls end later
        torch.cuda.synchronize()
    assert all(work.is_completed() for work in works)
    return values


@case(sums="none")
def object_collectives(place):
    mine = {"rank": place.rank, "text": "x" * (1000 * place.rank), "tensor": torch.arange(place.rank)}
    everything = [None] * place.size
    dist.all_gather_object(everything, mine)
    shared = [mine] if place.rank == 0 else [None]
    dist.broadcast_object_list(shared, 0)
    gathered = [None] * place.size if place.rank == 1 else None
    dist.gather_object(mine, gathered, 1)
    part = [None]
    dist.scatter_object_list(part, [f"for {i}" for i in range(place.size)] if place.rank == 0 else None, 0)
    handed = [mine]
    if place.rank == 0:
        dist.send_object_list(handed, 1)
    elif place.rank == 1:
        dist.recv_object_list(handed, 0)
    return [everything, shared, gathered, part, handed]


@case(sums="none")
def functional_collectives(place):
    group, size = dist.group.WORLD, place.size
    mine = numbers(place, torch.float32, 2 * size).reshape(size, 2)
    calls = {
        "all_reduce": lambda: funcol.all_reduce(mine, "sum", group),
        "largest": lambda: funcol.all_reduce(mine, "max", group),
        "all_gather": lambda: funcol.all_gather_tensor(mine, 0, group),
        "all_gather of columns": lambda: funcol.all_gather_tensor(mine, 1, group),
        "reduce_scatter": lambda: funcol.reduce_scatter_tensor(mine, "sum", 0, group),
        "all_to_all": lambda: funcol.all_to_all_single(mine, None, None, group),
        "broadcast": lambda: funcol.broadcast(mine, 1, group),
        "all_reduce coalesced": lambda: funcol.all_reduce_coalesced([mine, mine + 1], "sum", group),
        "all_gather coalesced": lambda: funcol.all_gather_into_tensor_coalesced([mine, mine + 1], group),
        "reduce_scatter coalesced": lambda: funcol.reduce_scatter_tensor_coalesced(
            [mine, mine + 1], "sum", [0, 0], group
        ),
    }
    return {name: waited(call()) for name, call in calls.items()}


def waited(result):
    if isinstance(result, (list, tuple)):
        return [waited(each) for each in result]
    return funcol.wait_tensor(result) if not isinstance(result, funcol.AsyncCollectiveTensor) else result.wait()


@case(sums="none")
def functional_average(place):
    """Of numbers whose average over 2, 3 and 4 ranks is exact."""
    return waited(funcol.all_reduce(numbers(place, torch.float32) * 12, "avg", dist.group.WORLD))


@case(sums="f32")
def autograd_collectives(place):
    """In f64, because sin() of large numbers magnifies the rounding of f32 beyond the tolerance."""
    size = place.size
    x = torch.randn(size, 3, generator=generator(place.rank)).double().requires_grad_()

    def empty(*shape):
        return torch.empty(*shape, dtype=x.dtype)

    reduced = autograd.reduce(x * 8, 0)
    results = [
        autograd.all_reduce(x * 2),
        torch.stack(autograd.all_gather(x * 3)),
        autograd.reduce_scatter(empty(3), [row.contiguous() for row in x * 4]),
        torch.stack(autograd.all_to_all([empty(3) for _ in range(size)], [row.contiguous() for row in x * 5])),
        autograd.all_to_all_single(empty(size, 3), x * 6),
        autograd.broadcast(x * 7, 1),
        reduced if place.rank == 0 else reduced * 0 + 0,  # a backend may leave anything in the buffers of other ranks
    ]
    total = sum(((i + 1 + place.rank) * result.sin()).sum() for i, result in enumerate(results))
    total.backward()
    return {"results": [result.detach() for result in results], "gradient": x.grad}


@case(sums="none")
def coalescing_manager(place):
    values = [numbers(place, torch.float32, count) for count in (5, 100, 3)]
    with dist._coalescing_manager():
        for value in values:
            dist.all_reduce(value)
    waiting = [value.clone() for value in values]
    with dist._coalescing_manager(async_ops=True) as manager:
        for value in waiting:
            dist.all_reduce(value)
    manager.wait()
    outputs = [torch.empty(count * place.size) for count in (5, 100, 3)]
    with dist._coalescing_manager():
        for output, value in zip(outputs, values):
            dist.all_gather_into_tensor(output, value)
    parts = [torch.empty(5), torch.empty(100)]
    with dist._coalescing_manager():
        for part, output in zip(parts, outputs):
            dist.reduce_scatter_tensor(part, output)
    return [values, waiting, outputs, parts]


@case(sums="none")
def new_groups(place):
    size = place.size
    groups = {
        "all": dist.new_group(),
        "reversed": dist.new_group(list(reversed(range(size)))),
        "first two": dist.new_group([0, 1]),
        "ends": dist.new_group([0, size - 1]),
        "alone": dist.new_group([0]),
    }
    found = {}
    for name, group in groups.items():
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            value = numbers(place, torch.float32)
            dist.all_reduce(value, group=group)
            found[name] = [value, dist.get_rank(group), dist.get_process_group_ranks(group)]
    own, _ = dist.new_subgroups(1)
    assert dist.get_world_size(own) == 1
    for group in groups.values():
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    return found


@case(sums="none")
def new_group_by_its_members(place):
    """The only group of the case, because torch names groups by numbers that count those which a rank has made or is in."""
    value = numbers(place, torch.float32)
    if place.rank < 2:
        dist.all_reduce(value, group=dist.new_group([0, 1], use_local_synchronization=True))
    return value


@case(sums="none")
def barriers(place):
    import datetime

    dist.barrier()
    dist.barrier(async_op=True).wait()
    if ranks.has_monitored_barrier(place.backend):
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    return place.rank


@case(sums="none", cpu_only="NCCL wants the calls of all groups in one order, which two threads do not keep")
def two_threads_on_two_groups(place):
    groups = [dist.new_group() for _ in range(2)]
    found = [None, None]

    def work(which):
        ranks.use_device(place.rank)
        value = numbers(place, torch.float64, 200)
        for step in range(100):
            dist.all_reduce(value, group=groups[which])
            value = value / place.size + which + step
        found[which] = value

    threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(value is not None for value in found), "a thread has failed"
    return [value.round() for value in found]
