"""Calls that other backends refuse, lose or confuse: unequal parts, messages, threads, groups, workers, compilers."""

import datetime
import gc
import os
import threading
import time

import torch
import torch.distributed as dist
from ranks import Skip, has_monitored_barrier

from . import check, in_ranks, in_threads


@in_ranks()
def all_to_all_of_unequal_lists(place):
    place.start()
    size, rank = place.size, place.rank
    inputs = [torch.full((rank + 2 * peer,), 10.0 * rank + peer) for peer in range(size)]
    outputs = [torch.full((peer + 2 * rank,), -1.0) for peer in range(size)]
    dist.all_to_all(outputs, inputs)
    for peer, output in enumerate(outputs):
        check(place, f"from {peer}", output, torch.full((peer + 2 * rank,), 10.0 * peer + rank))


@in_ranks()
def all_to_all_of_unequal_splits(place):
    place.start()
    size, rank = place.size, place.rank
    sent = [(rank + 3 * peer) % 4 for peer in range(size)]
    received = [(peer + 3 * rank) % 4 for peer in range(size)]
    output = torch.full((sum(received), 2), -1.0)
    dist.all_to_all_single(output, torch.full((sum(sent), 2), float(rank)), received, sent)
    expected = [torch.full((count, 2), float(peer)) for peer, count in enumerate(received)]
    check(place, "output", output, torch.cat(expected))


@in_ranks()
def all_gather_of_unequal_tensors(place):
    """Every rank knows all lengths, and gives outputs of these lengths."""
    place.start()
    outputs = [torch.full((2 + peer,), -1.0) for peer in range(place.size)]
    dist.all_gather(outputs, torch.full((2 + place.rank,), float(place.rank)))
    for peer, output in enumerate(outputs):
        check(place, f"from {peer}", output, torch.full((2 + peer,), float(peer)))


@in_ranks()
def isend_whose_handle_is_dropped(place):
    place.start()
    for count in (1, 1000, 1 << 20):
        if place.rank == 0:
            dist.isend(torch.full((count,), 5.0), 1)
            gc.collect()
            torch.full((count,), -9.0)  # takes the memory that the tensor would have left
        elif place.rank == 1:
            time.sleep(0.2)
            value = torch.zeros(count)
            dist.recv(value, 0)
            check(place, f"{count} elements", value, torch.full((count,), 5.0))
        dist.barrier()
    if place.control and place.rank != 1:
        raise AssertionError("only the receiver checks")


@in_ranks()
def asynchronous_call_whose_handle_and_tensor_are_dropped(place):
    place.start()
    for _ in range(20):
        dist.all_reduce(torch.ones(10_000), async_op=True)
        gc.collect()
    value = torch.full((3,), float(place.rank + 1))
    dist.all_reduce(value)
    check(place, "the call after them", value, torch.full((3,), place.size * (place.size + 1) / 2))


@in_ranks()
def tags_out_of_order(place):
    place.start()
    if place.rank == 0:
        for work in [dist.isend(torch.full((tag + 1,), float(tag)), 1, tag=tag) for tag in range(10)]:
            work.wait()
    elif place.rank == 1:
        values = [torch.zeros(tag + 1) for tag in range(10)]
        for work in [dist.irecv(values[tag], 0, tag=tag) for tag in reversed(range(10))]:
            work.wait()
        for tag, value in enumerate(values):
            check(place, f"tag {tag}", value, torch.full((tag + 1,), float(tag)))
    dist.barrier()
    if place.control and place.rank != 1:
        raise AssertionError("only the receiver checks")


@in_ranks()
def ring_of_sends_first(place):
    """Each rank starts to send before it receives."""
    place.start()
    right, left = (place.rank + 1) % place.size, (place.rank - 1) % place.size
    for count in (1, 1000, 1 << 16, 1 << 22):
        value = torch.zeros(count)
        work = dist.isend(torch.full((count,), float(place.rank)), right)
        dist.recv(value, left)
        work.wait()
        check(place, f"{count} elements", value, torch.full((count,), float(left)))


@in_ranks()
def ring_of_small_blocking_sends_first(place):
    """As MPI programs do with messages of a few bytes: `send` returns before anybody receives."""
    place.start()
    right, left = (place.rank + 1) % place.size, (place.rank - 1) % place.size
    value = torch.zeros(8)
    dist.send(torch.full((8,), float(place.rank)), right)
    dist.recv(value, left)
    check(place, "received", value, torch.full((8,), float(left)))


@in_ranks()
def receive_from_any_source(place):
    place.start()
    if place.rank:
        dist.send(torch.full((4,), float(place.rank)), 0)
    else:
        seen = []
        for _ in range(place.size - 1):
            value = torch.zeros(4)
            source = dist.recv(value)
            check(place, "data of the source", value, torch.full((4,), float(source)))
            seen.append(source)
        check(place, "sources", sorted(seen), list(range(1, place.size)))
    if place.control and place.rank:
        raise AssertionError("only the receiver checks")


@in_ranks()
def batch_of_messages(place):
    place.start()
    size, rank = place.size, place.rank
    values = {peer: torch.zeros(peer + rank + 1) for peer in range(size) if peer != rank}
    batch = []
    for peer, value in values.items():
        batch.append(dist.P2POp(dist.irecv, value, peer))
        batch.append(dist.P2POp(dist.isend, torch.full((peer + rank + 1,), 100.0 * rank + peer), peer))
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    for peer, value in values.items():
        check(place, f"from {peer}", value, torch.full((peer + rank + 1,), 100.0 * peer + rank))


@in_ranks()
def works_waited_for_in_any_order(place):
    place.start()
    values = [torch.full((1 + 97 * i,), float(place.rank + i)) for i in range(30)]
    works = [dist.all_reduce(value, async_op=True) for value in values]
    for i in sorted(range(30), key=lambda i: (7 * i + 5 * place.rank) % 30):
        works[i].wait()
    ranks = place.size * (place.size - 1) // 2
    for i, value in enumerate(values):
        check(place, f"call {i}", value, torch.full((1 + 97 * i,), float(ranks + i * place.size)))


def burst(place, group, which):
    """Makes 200 calls on one group and checks each result."""
    for step in range(200):
        count = 1 + (step * 37) % 1000
        value = torch.full((count,), float(place.rank + which + step))
        dist.all_reduce(value, group=group)
        expected = place.size * (place.size - 1) // 2 + place.size * (which + step)
        check(place, f"thread {which}, step {step}", value, torch.full((count,), float(expected)))


def four_threads(place, seconds):
    """Four threads make calls, each on its own group, until all ranks have done so for `seconds`."""
    place.start()
    groups = [dist.new_group() for _ in range(4)]
    end = time.monotonic() + seconds
    bursts = [0] * len(groups)

    def work(which):
        goes_on = torch.ones(1)
        while goes_on.item():
            burst(place, groups[which], which)
            bursts[which] += 1
            goes_on.fill_(time.monotonic() < end)
            dist.all_reduce(goes_on, op=dist.ReduceOp.MAX, group=groups[which])

    in_threads(range(len(groups)), work)
    print(f"rank {place.rank}: bursts of 200 calls by thread: {bursts}")


@in_ranks(limit_s=60)
def threads_on_their_own_groups(place):
    four_threads(place, 0)


@in_ranks(limit_s=150, needs_flag="long")
def threads_on_their_own_groups_for_a_minute(place):
    four_threads(place, 60)


@in_ranks()
def groups_that_overlap(place):
    place.start()
    size = place.size
    pairs = [dist.new_group([a, (a + 1) % size]) for a in range(size)] if size > 2 else [dist.new_group([0, 1])] * size
    for offset in (0, 1):
        for a in range(size):
            pair = {a, (a + 1) % size}
            if (a + offset) % 2 == 0 and place.rank in pair:
                value = torch.full((5,), float(place.rank))
                dist.all_reduce(value, group=pairs[a])
                check(place, f"pair {sorted(pair)}", value, torch.full((5,), float(sum(pair))))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident_mib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def make_and_destroy(place, count):
    groups = [dist.new_group() for _ in range(count)]
    for i, group in enumerate(groups):
        value = torch.full((2,), float(i))
        dist.all_reduce(value, group=group)
        check(place, f"group {i}", value, torch.full((2,), float(i * place.size)))
    for group in groups:
        dist.destroy_process_group(group)


def flat_over(place, rounds, count=200):
    place.start()
    make_and_destroy(place, count)
    before, memory = descriptors(), 0.0
    for turn in range(rounds):
        if turn == min(2, rounds - 1):
            memory = resident_mib()
        make_and_destroy(place, count)
    dist.barrier()
    after, grown = descriptors(), resident_mib() - memory
    if after > before + 8:
        raise AssertionError(f"{before} descriptors before, {after} after {rounds} rounds of {count} groups")
    if grown > 10 + rounds:
        raise AssertionError(f"{grown:.0f} MiB more after {rounds} rounds of {count} groups")


@in_ranks(limit_s=120)
def many_groups(place):
    """200 groups at once, destroyed, and again: descriptors and memory stay."""
    flat_over(place, 2)


@in_ranks(limit_s=1800, needs_flag="long")
def many_groups_fifty_times(place):
    flat_over(place, 50)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((3,), float(index))


@in_ranks(limit_s=60)
def forked_loader_workers(place):
    """Workers are forked while a group exists and a call is in flight."""
    place.start()
    dist.barrier()
    for _ in range(2):
        total = torch.zeros(3)
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        for batch in torch.utils.data.DataLoader(
            Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"
        ):
            mean = batch.mean(0)
            dist.all_reduce(mean)
            total += mean
        work.wait()
        check(place, "sum", total, torch.full((3,), place.size * 6 * 11.5))


@in_ranks(limit_s=60)
def uneven_dtensor_shards(place):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    place.start()
    mesh = init_device_mesh("cpu", (place.size,))
    for rows in (1, 2, 5, 7):
        for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
            whole = (torch.arange(rows * 3).reshape(rows, 3) % 2).to(dtype)
            spread = distribute_tensor(whole, mesh, [Shard(0)])
            check(place, f"{rows} rows of {dtype}", spread.full_tensor(), whole)
            turned = spread.redistribute(placements=[Shard(1)]).redistribute(placements=[Replicate()])
            check(place, f"{rows} rows of {dtype} turned", turned.to_local(), whole)


@in_ranks(limit_s=120)
def compiled_functional_collectives(place):
    import torch.distributed._functional_collectives as funcol

    place.start()

    def body(x):
        total = funcol.all_reduce(x, "sum", dist.group.WORLD)
        return funcol.all_gather_tensor(total * 2, 0, dist.group.WORLD) + 1

    found = torch.compile(body, backend="aot_eager", fullgraph=True)(torch.full((2, 2), float(place.rank)))
    ranks = place.size * (place.size - 1) // 2
    check(place, "result", found.clone(), torch.full((2 * place.size, 2), 2.0 * ranks + 1))


@in_ranks()
def futures_and_continuations(place):
    place.start()
    seen = []
    future = dist.all_reduce(torch.full((3,), float(place.rank)), async_op=True).get_future()
    chained = future.then(lambda done: seen.append(1) or done.value()[0] + 1).then(lambda done: done.value() * 2)
    ranks = place.size * (place.size - 1) // 2
    check(place, "value", chained.wait(), torch.full((3,), 2.0 * (ranks + 1)))
    check(place, "times called", len(seen), 1)
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    check(
        place,
        "of a finished call",
        work.get_future().then(lambda done: done.value()[0]).wait(),
        torch.full((3,), float(place.size)),
    )


@in_ranks(limit_s=60)
def objects_of_any_size(place):
    place.start()
    for length in (0, 1, 1000, 5_000_000):
        everything = [None] * place.size
        dist.all_gather_object(everything, bytes([place.rank]) * (length + place.rank))
        check(place, f"{length} bytes", everything, [bytes([rank]) * (length + rank) for rank in range(place.size)])


@in_ranks(limit_s=60)
def sparse_sum(place):
    place.start()
    rows = torch.arange(place.rank + 1)
    mine = torch.sparse_coo_tensor(rows.unsqueeze(0), torch.ones(place.rank + 1), (place.size,))
    dist.all_reduce(mine)
    check(place, "sum", mine.to_dense(), torch.tensor([float(place.size - row) for row in range(place.size)]))


@in_ranks()
def monitored_barrier_names_who_is_missing(place):
    from . import raises

    if not has_monitored_barrier(place.backend):
        raise Skip(f"torch {torch.__version__} has it for Gloo alone")
    place.start()
    limit = datetime.timedelta(seconds=1)
    if place.rank == 0:
        raises(
            "rank 0", lambda: dist.monitored_barrier(timeout=limit), "Rank 1 failed to pass monitoredBarrier", most_s=4
        )
    elif place.rank > 1 or place.control:
        try:
            dist.monitored_barrier(timeout=limit)
        except RuntimeError:
            pass
    if place.control and place.rank:
        raise AssertionError("only rank 0 checks")
