"""What goes wrong in a job: calls that do not match, and ranks that die or are late."""

import contextlib
import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

from . import LATE, check, in_ranks, raises, sum_of_ranks


def mismatch(place, what, call, *words):
    """Every rank gets an exception within 10 s. `call(odd)` is given whether this rank is the one that differs."""
    place.start(timeout_s=10)
    dist.barrier()
    odd = place.rank == place.size - 1 and not place.control
    raises(what, lambda: call(odd), *words)


@in_ranks()
def mismatch_of_sizes(place):
    mismatch(place, "all_reduce of unequal sizes", lambda odd: dist.all_reduce(torch.ones(20 if odd else 10)))


@in_ranks()
def mismatch_of_large_sizes(place):
    mismatch(
        place, "all_reduce of unequal sizes", lambda odd: dist.all_reduce(torch.ones(3_000_000 if odd else 1_000_000))
    )


@in_ranks()
def mismatch_of_broadcast_sizes(place):
    def call(odd):
        dist.broadcast(torch.ones(20 if odd else 10), 0)
        dist.barrier()  # the root is done when its data are on their way: then its next call raises

    mismatch(place, "broadcast of unequal sizes", call)


@in_ranks()
def mismatch_of_reduce_scatter_sizes(place):
    def call(odd):
        count = 20 if odd else 10
        dist.reduce_scatter_tensor(torch.empty(count), torch.ones(count * place.size))

    mismatch(place, "reduce_scatter of unequal sizes", call)


@in_ranks()
def mismatch_of_message_sizes(place):
    place.start(timeout_s=10)
    dist.barrier()
    if place.rank == 0:
        try:
            dist.send(torch.ones(10 if place.control else 20), 1)
        except RuntimeError:
            pass
    elif place.rank == 1:
        raises("a message that is longer than its buffer", lambda: dist.recv(torch.zeros(10), 0))
    if place.control and place.rank != 1:
        raise AssertionError("only the receiver checks")


@in_ranks()
def mismatch_of_dtypes(place):
    mismatch(
        place,
        "all_reduce of unequal dtypes",
        lambda odd: dist.all_reduce(torch.ones(10, dtype=torch.float64 if odd else torch.float32)),
    )


@in_ranks()
def mismatch_of_calls(place):
    def call(odd):
        value = torch.ones(10)
        dist.broadcast(value, 0) if odd else dist.all_reduce(value)

    mismatch(place, "all_reduce against broadcast", call)


@in_ranks()
def mismatch_leaves_other_groups_usable(place):
    place.start(timeout_s=10)
    broken = dist.new_group(timeout=datetime.timedelta(seconds=5))
    odd = place.rank == place.size - 1 and not place.control
    raises("all_reduce of unequal sizes", lambda: dist.all_reduce(torch.ones(20 if odd else 10), group=broken))
    value = torch.full((4,), float(place.rank))
    dist.all_reduce(value)
    check(place, "the other group", value, torch.full((4,), float(sum_of_ranks(place))))


def die(place):
    if not place.control:
        os.kill(os.getpid(), signal.SIGKILL)


def death(place, call):
    """Rank 1 ends while the others are in a call; they must raise within 2 s and name rank 1."""
    place.start(timeout_s=20)
    dist.barrier()
    if place.rank == 1:
        time.sleep(0.3)
        die(place)
        call()  # in a negative control nobody dies
        raise AssertionError("rank 1 has not died")
    raises("a call with a dead rank", call, r"rank 1\b|peer 1\b", most_s=2.5)


@in_ranks(dying=(1,))
def dead_rank_in_all_reduce(place):
    death(place, lambda: dist.all_reduce(torch.ones(10)))


@in_ranks(dying=(1,))
def dead_rank_in_all_reduce_of_many_bytes(place):
    death(place, lambda: dist.all_reduce(torch.ones(4 << 20)))


@in_ranks(dying=(1,))
def dead_rank_in_barrier(place):
    death(place, dist.barrier)


@in_ranks(dying=(1,))
def dead_rank_in_asynchronous_call(place):
    death(place, lambda: dist.all_reduce(torch.ones(10), async_op=True).wait())


@in_ranks(dying=(1,))
def dead_rank_in_receive(place):
    death(place, lambda: dist.recv(torch.ones(10), 1) if place.rank == 0 else dist.all_reduce(torch.ones(1)))


@in_ranks(dying=(1,))
def dead_rank_in_future(place):
    death(place, lambda: dist.all_reduce(torch.ones(10), async_op=True).get_future().wait())


@in_ranks(dying=(1,))
def dead_rank_before_the_call(place):
    place.start(timeout_s=20)
    dist.barrier()
    if place.rank == 1:
        die(place)
        dist.all_reduce(torch.ones(10))
        raise AssertionError("rank 1 has not died")
    time.sleep(1)
    raises("a call after rank 1 has died", lambda: dist.all_reduce(torch.ones(10)), r"rank 1\b|peer 1\b", most_s=2.5)


@in_ranks(dying=(1,))
def rank_that_raises_and_leaves(place):
    """Rank 1 raises in Python and ends in order; its code is its own and the others hear of it at once."""
    place.start(timeout_s=20)
    dist.barrier()
    if place.rank == 1:
        if not place.control:
            time.sleep(0.3)
            os._exit(3)
        dist.all_reduce(torch.ones(10))
        raise AssertionError("rank 1 has not left")
    raises(
        "a call with a rank that has left", lambda: dist.all_reduce(torch.ones(10)), r"rank 1\b|peer 1\b", most_s=2.5
    )


@in_ranks()
def stopped_rank_is_reported_as_late(place):
    """Rank 1 stops itself with SIGSTOP; rank 0 lets it go on when all is over."""
    place.start(timeout_s=3)
    with open(place.shared(f"pid.{place.rank}"), "w", encoding="utf-8") as out:
        out.write(str(os.getpid()))
    dist.barrier()
    if place.rank == 1 and not place.control:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    try:
        raises(
            "a call with a late rank",
            lambda: dist.all_reduce(torch.ones(10)),
            LATE,
            r"rank 1\b|peer 1\b",
            least_s=2.5,
            most_s=5,
        )
    finally:
        if place.rank == 0:
            time.sleep(1)
            with open(place.shared("pid.1"), encoding="utf-8") as pid, contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read()), signal.SIGCONT)


@in_ranks()
def error_is_of_the_type_that_torch_documents(place):
    """What a dead or mismatched rank causes can be caught as DistBackendError or as Gloo's RuntimeError."""
    place.start(timeout_s=10)
    odd = place.rank == place.size - 1 and not place.control
    text = raises("unequal sizes", lambda: dist.all_reduce(torch.ones(20 if odd else 10)))
    if not text.startswith(("DistBackendError", "RuntimeError", "DistNetworkError")):
        raise AssertionError(f"another type: {text[:100]}")
