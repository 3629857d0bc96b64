"""Tensors on CUDA devices: what the calls give, and their order among the work of streams."""

import os
import signal
import time

import ranks
import torch
import torch.distributed as dist

from . import check, in_ranks, raises, sum_of_ranks

LONG = 200_000_000  # cycles of a device, which are about a tenth of a second


def start(place, **more):
    if ranks.DEVICE != "cuda":
        raise ranks.Skip("needs TEST_DEVICE=cuda")
    if not torch.cuda.is_available():
        raise ranks.Skip("torch sees no CUDA device")
    place.start(**more)


def check_values(place, what, tensor, value):
    check(place, what, tensor.cpu(), torch.full(tensor.shape, value, dtype=tensor.dtype, device="cpu"))


@in_ranks(limit_s=25)
def device_collectives(place):
    start(place)
    size, rank, total = place.size, place.rank, sum_of_ranks(place)
    for count in (1, 5, 1000, 1 << 20):
        x = torch.full((count,), float(rank))
        dist.all_reduce(x)
        check_values(place, f"all_reduce of {count}", x, float(total))
        x.fill_(float(rank))
        dist.broadcast(x, size - 1)
        check_values(place, "broadcast", x, float(size - 1))
        x.fill_(float(rank))
        dist.reduce(x, 0)
        check_values(place, "reduce", x, float(total if rank == 0 else rank))
        gathered = torch.empty(size * count)
        dist.all_gather_into_tensor(gathered, torch.full((count,), float(rank)))
        check_values(place, "all_gather", gathered[-count:], float(size - 1))
        part = torch.empty(count)
        dist.reduce_scatter_tensor(part, torch.full((size * count,), float(rank)))
        check_values(place, "reduce_scatter", part, float(total))
        exchanged = torch.empty(size * count)
        dist.all_to_all_single(exchanged, torch.full((size * count,), float(rank)))
        check_values(place, "all_to_all", exchanged[:count], 0.0)
    average = torch.full((7,), float(rank), dtype=torch.bfloat16)
    dist.all_reduce(average, dist.ReduceOp.AVG)
    check_values(place, "average", average, total / size)


@in_ranks(limit_s=25)
def device_lists(place):
    start(place)
    size, rank, total = place.size, place.rank, sum_of_ranks(place)
    mine = torch.full((4,), float(rank))
    outputs = [torch.empty(4) for _ in range(size)]
    dist.all_gather(outputs, mine)
    for peer, output in enumerate(outputs):
        check_values(place, f"all_gather from rank {peer}", output, float(peer))
    outputs = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_gather(outputs, torch.full((rank + 1,), float(rank)))
    for peer, output in enumerate(outputs):
        check_values(place, f"all_gather of uneven sizes from rank {peer}", output, float(peer))
    part = torch.empty(3)
    dist.reduce_scatter(part, [torch.full((3,), float(rank + peer)) for peer in range(size)])
    check_values(place, "reduce_scatter", part, float(total + size * rank))
    received = [torch.empty(peer + 1) for peer in range(size)]
    dist.all_to_all(received, [torch.full((rank + 1,), float(rank)) for _ in range(size)])
    for peer, output in enumerate(received):
        check_values(place, f"all_to_all from rank {peer}", output, float(peer))
    gathered = [torch.empty(4) for _ in range(size)] if rank == 0 else None
    dist.gather(mine, gathered, dst=0)
    for peer, output in enumerate(gathered or []):
        check_values(place, f"gather from rank {peer}", output, float(peer))
    scattered = torch.empty(4)
    dist.scatter(scattered, [torch.full((4,), float(peer)) for peer in range(size)] if rank == 0 else None, src=0)
    check_values(place, "scatter", scattered, float(rank))


@in_ranks(limit_s=25)
def device_follows_the_current_stream(place):
    """The tensor is written late, by the stream that the call is made on; the host is not kept."""
    start(place)
    dist.all_reduce(torch.zeros(1))  # the communicator is made here
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 16)
        torch.cuda._sleep(LONG)
        x.fill_(float(place.rank))
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        y = x * 2
    stream.synchronize()
    check_values(place, "twice the sum", y, 2.0 * sum_of_ranks(place))


@in_ranks(limit_s=25)
def device_waits_on_another_stream(place):
    """Only the stream that waits for the call waits, and its later work sees the result."""
    start(place)
    x = torch.full((1 << 16,), float(place.rank))
    work = dist.all_reduce(x, async_op=True)
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        work.wait()
        y = x + 1
    other.synchronize()
    check_values(place, "sum and one", y, sum_of_ranks(place) + 1.0)


@in_ranks(limit_s=25)
def device_memory_is_kept_until_the_end(place):
    """The program drops its tensors at once; their memory must not be given away while a call works on them."""
    start(place)
    results = []
    for step in range(50):
        x = torch.full((1 << 18,), float(place.rank + step))
        y = torch.empty(place.size << 18)
        work = dist.all_gather_into_tensor(y, x, async_op=True)
        del x
        torch.full((1 << 18,), -1.0)  # takes the memory of x, if that is free
        results.append((work, y))
    for step, (work, y) in enumerate(results):
        work.wait()
        for peer in range(place.size):
            check_values(place, f"step {step}", y.view(place.size, -1)[peer], float(peer + step))


@in_ranks(limit_s=25)
def device_strided(place):
    start(place)
    columns = torch.zeros(6, 4)
    columns[:, 1] = float(place.rank)
    dist.all_reduce(columns[:, 1])
    expected = torch.zeros(6, 4)
    expected[:, 1] = float(sum_of_ranks(place))
    check(place, "one column", columns.cpu(), expected.cpu())
    work = dist.broadcast(columns.t(), 0, async_op=True)
    work.wait()
    check(place, "transposed", columns.cpu(), expected.cpu())


@in_ranks(limit_s=25)
def device_futures(place):
    start(place)
    x = torch.full((1 << 16,), float(place.rank))
    future = dist.all_reduce(x, async_op=True).get_future()
    twice = future.then(lambda done: done.value()[0] * 2)
    y = twice.wait()
    check_values(place, "twice the sum", y, 2.0 * sum_of_ranks(place))


@in_ranks(limit_s=25)
def device_messages(place):
    start(place)
    right, left = (place.rank + 1) % place.size, (place.rank - 1) % place.size
    for count in (3, 1 << 20):
        sent, got = torch.full((count,), float(place.rank)), torch.empty(count)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, got, left)])
        for work in works:
            work.wait()
        check_values(place, f"message of {count}", got, float(left))


@in_ranks(limit_s=25)
def device_dtypes(place):
    start(place)
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float64):
        x = torch.full((33,), place.rank + 1, dtype=dtype)
        dist.all_reduce(x)
        check_values(place, f"sum of {dtype}", x, sum_of_ranks(place) + place.size)
    for dtype in (torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn):
        x = torch.full((33,), 1.0).to(dtype) if place.rank == 0 else torch.zeros(33).to(dtype)
        dist.broadcast(x, 0)
        check(place, f"broadcast of {dtype}", x.cpu(), torch.full((33,), 1.0, device="cpu").to(dtype))


@in_ranks(limit_s=25)
def device_and_host_in_one_group(place):
    start(place)
    on_host = torch.full((9,), float(place.rank), device="cpu")
    dist.all_reduce(on_host)
    check_values(place, "sum on the host", on_host, float(sum_of_ranks(place)))
    names = [None] * place.size
    dist.all_gather_object(names, f"rank {place.rank}")
    check(place, "objects", names, [f"rank {peer}" for peer in range(place.size)])
    x = torch.full((9,), float(place.rank))
    dist.all_reduce(x)
    dist.barrier()
    check_values(place, "sum on the device", x, float(sum_of_ranks(place)))
    raises(
        "output on the host",
        lambda: dist.all_gather_into_tensor(torch.empty(place.size * 4, device="cpu"), torch.zeros(4)),
        "device",
    )


@in_ranks(limit_s=25)
def device_two_groups_at_once(place):
    start(place)
    groups = [dist.new_group() for _ in range(3)]
    tensors = [torch.full((1 << 16,), float(place.rank + i)) for i in range(3)]
    works = [dist.all_reduce(x, group=g, async_op=True) for x, g in zip(tensors, groups)]
    for work in works:
        work.wait()
    for i, x in enumerate(tensors):
        check_values(place, f"group {i}", x, float(sum_of_ranks(place) + i * place.size))


@in_ranks(limit_s=25)
def device_call_in_a_graph(place):
    """A call inside of a graph runs at each replay if each rank has a device of its own. Otherwise it is refused."""
    start(place)
    x = torch.zeros(16)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph):
            x.add_(1.0)
            dist.all_reduce(x)

    if torch.cuda.device_count() < place.size:
        raises("a call while its stream is captured", capture, "captured into a graph")
    else:
        capture()
        for turn in range(3):
            x.fill_(float(place.rank + turn))
            graph.replay()
            check_values(place, f"replay {turn}", x, float(sum_of_ranks(place) + place.size * (1 + turn)))
    torch.cuda.synchronize()
    x = torch.full((16,), float(place.rank))
    dist.all_reduce(x)
    check_values(place, "the call after it", x, float(sum_of_ranks(place)))


@in_ranks(limit_s=25)
def device_leaves_captures_alone(place):
    """A graph of the program's own work is captured while a call is in flight."""
    start(place)
    x, y = torch.full((1 << 16,), float(place.rank)), torch.zeros(16)
    dist.all_reduce(torch.zeros(1))
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG)
    work = dist.all_reduce(x, async_op=True)
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y.add_(1.0)
    graph.replay()
    work.wait()
    torch.cuda.synchronize()
    check_values(place, "what the graph did", y, 1.0)
    check_values(place, "sum", x, float(sum_of_ranks(place)))


@in_ranks(dying=(1,), limit_s=60)
def device_killed_rank(place):
    """The others hear of it from their next calls, and are not kept by their device."""
    start(place, timeout_s=20)
    x = torch.ones(1 << 16)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if place.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def until_it_fails():
        while True:
            dist.all_reduce(torch.ones(1 << 16))
            torch.cuda.synchronize()
            time.sleep(0.01)

    raises("calls after rank 1 was killed", until_it_fails, "rank 1", most_s=20)
