"""Calls that cannot work, or that seldom do: each has the right result, or one error that says what was expected."""

import datetime
import os
import signal
import time
import traceback

import ranks
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import check, in_ranks, raises, sum_of_ranks


def backend_of(group=None):
    return (group or c10d._get_default_group())._get_backend(torch.device("cpu"))


def in_child(work):
    """Calls work() in a forked process. Returns what went wrong there: "" unless work() raised or ended the process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            os.write(write, traceback.format_exc().encode()[-4000:])
        os._exit(code)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text or (f"the process ended with exit code {code}" if code != 0 else "")


@in_ranks()
def calls_in_a_forked_process(place):
    """As in a worker of a data loader: the child gets an exception, and the group of its parent goes on."""
    place.start()
    everybody = list(range(place.size))
    message = torch.zeros(3)
    pending = dist.irecv(message, (place.rank - 1) % place.size)

    def all_raise():
        forked = "" if place.control else "is a fork of|before a fork"
        for group in (None, other):
            raises("all_reduce", lambda: dist.all_reduce(torch.ones(3), group=group), forked)
            raises("asynchronous", lambda: dist.all_reduce(torch.ones(3), group=group, async_op=True).wait(), forked)
            raises("irecv", lambda: dist.irecv(torch.ones(3), group_src=0, group=group), forked)
            raises("barrier", lambda: dist.barrier(group), forked)
            raises("abort", backend_of(group).abort, forked)
        raises("wait", pending.wait, forked)

    other = dist.new_group(everybody)
    if place.control:
        all_raise()
    elif wrong := in_child(all_raise):
        raise AssertionError(f"a call in a forked process did not raise as expected: {wrong}")
    dist.send(torch.full((3,), 7.0), (place.rank + 1) % place.size)
    pending.wait()
    check(place, "a message that was awaited meanwhile", message, torch.full((3,), 7.0))
    for group in (None, other):
        value = torch.ones(3)
        dist.all_reduce(value, group=group)
        check(place, "in the parent", value, torch.full((3,), float(place.size)))


def coalesced(work, tensors):
    with dist._coalescing_manager():
        for tensor in tensors:
            work(*tensor)


@in_ranks()
def memory_that_several_tensors_share(place):
    """The results are those of a call that reads all its inputs first and writes its outputs in their order."""
    place.start()
    size, rank = place.size, place.rank
    total = float(sum_of_ranks(place))
    for length in (4, 5000):
        # This many elements for each rank. Each rank's own value makes it show where a part came from.
        def whole(ranks=size, length=length):
            return torch.arange(float(ranks * length)) + 1000 * rank

        def part_of(other, index, length=length):
            return torch.arange(float(length)) + index * length + 1000 * other

        same = torch.full((length,), float(rank))
        coalesced(dist.all_reduce, [(same,), (same,)])
        check(place, "one tensor twice", same, torch.full((length,), total))
        long = torch.full((2 * length,), float(rank))
        coalesced(dist.all_reduce, [(long[: length + 2],), (long[length - 2 :],)])
        check(place, "two tensors that overlap", long, torch.full((2 * length,), total))
        inputs, second = torch.full((size * length,), float(rank)), torch.zeros(length)
        coalesced(dist.reduce_scatter_tensor, [(inputs[:length], inputs), (second, inputs)])
        check(place, "an output in another call's input, first", inputs[:length], torch.full((length,), total))
        check(place, "an output in another call's input, second", second, torch.full((length,), total))
        # Where the parts of the ranks 0, 1, .. begin: at their places, at others, and in between.
        for starts in ([length * r for r in range(size)], [length * (size - 1 - r) for r in range(size)], [1] * size):
            mine = slice(starts[rank], starts[rank] + length)
            everything = whole()
            dist.all_gather_into_tensor(everything, everything[mine])
            expected = torch.cat([torch.arange(float(length)) + starts[r] + 1000 * r for r in range(size)])
            check(place, f"all_gather from {starts}", everything, expected)
            everything = whole()
            dist.reduce_scatter_tensor(everything[mine], everything)
            expected = sum(part_of(r, rank) for r in range(size))
            check(place, f"reduce_scatter to {starts}", everything[mine], expected)
        for shift in (0, 1):
            memory = torch.zeros(size * length + 1)
            memory[: size * length] = whole()
            output = memory[shift : size * length + shift]
            dist.all_to_all_single(output, memory[: size * length])
            check(place, f"all_to_all by {shift}", output, torch.cat([part_of(r, rank) for r in range(size)]))
            memory[: size * length] = whole()
            counts = [length] * size
            dist.all_to_all_single(output, memory[: size * length], counts, counts)
            check(place, f"by counts, {shift}", output, torch.cat([part_of(r, rank) for r in range(size)]))


@in_ranks()
def storage_that_was_taken_away(place):
    place.start()
    for left in (0, 8):
        for work in (dist.all_reduce, lambda t: dist.broadcast(t, 0), lambda t: dist.all_gather_into_tensor(out, t)):
            tensor, out = torch.ones(300), torch.empty(300 * place.size)
            if not place.control:
                tensor.untyped_storage().resize_(left)
            raises(f"{left} bytes", lambda work=work, tensor=tensor: work(tensor), "1200 bytes", f"which has {left}")
    value = torch.ones(3)
    dist.all_reduce(value)
    check(place, "afterwards", value, torch.full((3,), float(place.size)))


@in_ranks()
def memory_of_the_group_beyond_the_address_space(place):
    """The number of bytes does not fit into 64 bits."""
    place.start()
    cpu = torch.device("cpu")
    for elements in (2**61 + 1, 2**62, 2**63 - 1):
        count = 3 if place.control else elements
        raises(f"{elements}", lambda: backend_of().allocate_tensor(count, dtype=torch.float64, device=cpu), "at most")


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


@in_ranks()
def ranks_that_do_not_agree_on_the_world_size(place):
    store, size = place.meet(datetime.timedelta(seconds=20)), place.size

    def start(name, rank, world_size, timeout_s):
        timeout = datetime.timedelta(seconds=timeout_s)
        dist.init_process_group(
            place.backend, store=dist.PrefixStore(name, store), rank=rank, world_size=world_size, timeout=timeout
        )

    beyond = place.rank if place.control else size + place.rank
    raises("rank", lambda: start("rank", beyond, size, 20), f"rank is {beyond}", f"0 to {size - 1}", most_s=5)
    odd = 0 if place.control else place.rank == 1
    sizes = [f"{size}", f"{size + 1}", "world size"]
    raises("larger", lambda: start("larger", place.rank, size + odd, 20), *sizes, most_s=5)
    if size == 2:  # with more ranks the last one is never waited for
        least = size if place.control else size + (place.rank == 0)
        raises("smaller", lambda: start("smaller", place.rank, least, 2), *sizes)
    place.start(store=dist.PrefixStore("works", store))
    dist.barrier()


def keep_store(path):
    """A process that keeps a TCPStore until it is killed. It writes the port to `path`."""
    child = os.fork()
    if child == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        with open(path + ".new", "w", encoding="utf-8") as out:
            out.write(str(store.port))
        os.rename(path + ".new", path)
        signal.pause()
    return child


@in_ranks()
def store_that_has_gone(place):
    """Calls go on. New groups cannot be made, and the error says that the store is the reason."""
    path = place.shared("kept")
    keeper = keep_store(path) if place.rank == 0 else None
    ranks.wait_for_file(path)
    with open(path, encoding="utf-8") as port:
        place.start(store=dist.TCPStore("127.0.0.1", int(port.read()), is_master=False))
    dist.barrier()
    if keeper and not place.control:
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
    dist.barrier()
    everybody = list(range(place.size))
    raises("new_group", lambda: dist.new_group(everybody), "joining process group 1", "store does not answer", most_s=5)
    value = torch.ones(3)
    dist.all_reduce(value)
    check(place, "afterwards", value, torch.full((3,), float(place.size)))


@in_ranks()
def errors_say_how_to_see_the_lines(place):
    """The place of a call that ended at once is not known unless SINEW_PYTHON_SITES is 1."""
    if place.control:
        os.environ["SINEW_PYTHON_SITES"] = "1"
    place.start()
    count = 3 + (place.rank == 1)
    raises("mismatch", lambda: dist.all_reduce(torch.ones(count)), "SINEW_PYTHON_SITES=1 calls are named")


@in_ranks()
def errors_name_the_process_group(place):
    place.start()
    group = dist.new_group(list(range(place.size)))
    backend_of(None if place.control else group).abort()
    text = raises("after abort", lambda: dist.all_reduce(torch.ones(3), group=group), "process group 1 of")
    if "all_reduce: all_reduce" in text:
        raise AssertionError(f"the call is named twice: {text}")
    raises("a bad rank", lambda: dist.send(torch.ones(3), group_dst=place.size), "sinew: send: to_rank is")
