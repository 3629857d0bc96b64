"""What goes wrong in a job: calls that do not match, ranks that die or are late, timeouts, aborts and signals."""
import contextlib
import datetime
import os
import signal
import threading
import time

import torch
import torch.distributed as dist

from . import check, in_ranks, raises

LATE = "timed out|closed|timeout"


def cpu_backend(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))


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
    mismatch(place, "all_reduce of unequal sizes", lambda odd: dist.all_reduce(torch.ones(3_000_000 if odd else 1_000_000)))


@in_ranks()
def mismatch_of_broadcast_sizes(place):
    mismatch(place, "broadcast of unequal sizes", lambda odd: dist.broadcast(torch.ones(20 if odd else 10), 0))


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
    mismatch(place, "all_reduce of unequal dtypes",
             lambda odd: dist.all_reduce(torch.ones(10, dtype=torch.float64 if odd else torch.float32)))


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
    check(place, "the other group", value, torch.full((4,), place.size * (place.size - 1) / 2))


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
    raises("a call with a rank that has left", lambda: dist.all_reduce(torch.ones(10)), r"rank 1\b|peer 1\b", most_s=2.5)


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
        raises("a call with a late rank", lambda: dist.all_reduce(torch.ones(10)), LATE, r"rank 1\b|peer 1\b", least_s=2.5, most_s=5)
    finally:
        if place.rank == 0:
            time.sleep(1)
            with open(place.shared("pid.1"), encoding="utf-8") as pid, contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read()), signal.SIGCONT)


def late(place, what, call):
    """Rank 1 does not call for 4 s. The others wait 1 s by one of the ways to say so."""
    if place.rank == 1 and not place.control:
        time.sleep(4)
        return
    raises(what, call, LATE, least_s=0.85, most_s=3)


@in_ranks()
def timeout_of_one_wait(place):
    place.start()
    dist.barrier()
    work = None if place.rank == 1 and not place.control else dist.all_reduce(torch.ones(3), async_op=True)
    late(place, "wait(timeout)", lambda: work.wait(datetime.timedelta(seconds=1)))


@in_ranks()
def timeout_of_a_group(place):
    place.start()
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    dist.barrier()
    late(place, "new_group(timeout)", lambda: dist.all_reduce(torch.ones(3), group=group))


@in_ranks()
def timeout_set_later(place):
    place.start()
    dist.barrier()
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1), dist.group.WORLD)
    late(place, "a timeout that was set later", lambda: dist.all_reduce(torch.ones(3)))


@in_ranks()
def timeout_of_one_call(place):
    """The options of one call carry a timeout of their own."""
    place.start()
    dist.barrier()
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=1)
    late(place, "AllreduceOptions.timeout", lambda: dist.group.WORLD.allreduce([torch.ones(3)], options).wait())


@in_ranks()
def timeout_of_a_barrier(place):
    place.start(timeout_s=1)
    dist.barrier()
    late(place, "barrier", dist.barrier)


@in_ranks()
def timeout_of_a_receive(place):
    place.start(timeout_s=1)
    dist.barrier()
    if place.rank == 1 and place.control:
        dist.send(torch.ones(3), 0)
    if place.rank == 0:
        raises("recv", lambda: dist.recv(torch.ones(3), 1), LATE, least_s=0.85, most_s=3)
    elif place.control:
        raise AssertionError("only rank 0 checks")
    else:
        time.sleep(3)


@in_ranks()
def timeout_leaves_other_groups_usable(place):
    place.start()
    short = dist.new_group(timeout=datetime.timedelta(seconds=1))
    dist.barrier()
    if place.rank != 1 or place.control:
        raises("the short group", lambda: dist.all_reduce(torch.ones(3), group=short), LATE, most_s=3)
    value = torch.full((4,), float(place.rank))
    dist.all_reduce(value)
    check(place, "the other group", value, torch.full((4,), place.size * (place.size - 1) / 2))


@in_ranks()
def abort_of_a_stuck_call(place):
    place.start()
    group = dist.new_group()
    dist.barrier()
    if place.rank == 0 or place.control:
        seen = []

        def stuck():
            try:
                dist.all_reduce(torch.ones(3), group=group)
                seen.append("finished")
            except RuntimeError as error:
                seen.append(str(error))

        thread = threading.Thread(target=stuck, daemon=True)
        thread.start()
        time.sleep(0.5)
        cpu_backend(group).abort()
        thread.join(3)
        if thread.is_alive():
            raise AssertionError("the call goes on 3 s after abort()")
        if seen == ["finished"]:
            raise AssertionError("the call has finished")
    value = torch.full((4,), float(place.rank))
    dist.all_reduce(value)  # other groups go on
    check(place, "the other group", value, torch.full((4,), place.size * (place.size - 1) / 2))


def waits_two_seconds(place, body):
    """Ranks other than 0 come 2 s late; `body` runs on rank 0 at once."""
    place.start()
    dist.barrier()
    value = torch.full((3,), float(place.rank))
    if place.rank:
        time.sleep(2)
        dist.all_reduce(value)
    else:
        body(value)
    check(place, "sum", value, torch.full((3,), place.size * (place.size - 1) / 2))


def signal_after(seconds, which):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), which)).start()


@in_ranks()
def signal_handler_runs_during_a_wait(place):
    def body(value):
        times = []
        signal.signal(signal.SIGUSR1, lambda *_: times.append(time.monotonic()))
        signal_after(0.3, signal.SIGUSR1)
        started = time.monotonic()
        dist.all_reduce(value)
        took = times[0] - started if times else -1
        if not 0.2 <= took <= 1.0:
            raise AssertionError(f"the handler ran after {took:.1f} s, expected 0.3 s")

    waits_two_seconds(place, body)


@in_ranks()
def signal_handler_runs_during_an_asynchronous_wait(place):
    def body(value):
        times = []
        signal.signal(signal.SIGUSR1, lambda *_: times.append(time.monotonic()))
        signal_after(0.3, signal.SIGUSR1)
        started = time.monotonic()
        dist.all_reduce(value, async_op=True).wait()
        took = times[0] - started if times else -1
        if not 0.2 <= took <= 1.0:
            raise AssertionError(f"the handler ran after {took:.1f} s, expected 0.3 s")

    waits_two_seconds(place, body)


@in_ranks()
def interrupt_ends_a_wait(place):
    """SIGINT during a call raises KeyboardInterrupt within a second."""
    place.start()
    dist.barrier()
    if place.rank:
        time.sleep(3)
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        started = time.monotonic()
        if not place.control:
            signal_after(0.3, signal.SIGINT)
        try:
            dist.all_reduce(torch.ones(3), async_op=place.control)
            raise AssertionError("no KeyboardInterrupt")
        except KeyboardInterrupt:
            took = time.monotonic() - started
        if took > 1.3:
            raise AssertionError(f"KeyboardInterrupt came after {took:.1f} s, expected 0.3 s")
    if place.control and place.rank:
        raise AssertionError("only rank 0 checks")
    os._exit(0)


@in_ranks()
def exception_of_a_signal_handler_ends_a_wait(place):
    """Watchdogs of training scripts use SIGALRM with a handler that raises."""
    place.start()
    dist.barrier()

    def handler(*_):
        raise TimeoutError("the script's own watchdog")

    if place.rank == 0:
        signal.signal(signal.SIGALRM, handler)
        if not place.control:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
        started = time.monotonic()
        try:
            dist.all_reduce(torch.ones(3), async_op=place.control)
            raise AssertionError("no exception")
        except TimeoutError:
            took = time.monotonic() - started
        if took > 1.3:
            raise AssertionError(f"the exception came after {took:.1f} s, expected 0.3 s")
    else:
        time.sleep(3)
    if place.control and place.rank:
        raise AssertionError("only rank 0 checks")
    os._exit(0)


@in_ranks()
def error_is_of_the_type_that_torch_documents(place):
    """What a dead or mismatched rank causes can be caught as DistBackendError or as Gloo's RuntimeError."""
    place.start(timeout_s=10)
    odd = place.rank == place.size - 1 and not place.control
    text = raises("unequal sizes", lambda: dist.all_reduce(torch.ones(20 if odd else 10)))
    if not text.startswith(("DistBackendError", "RuntimeError", "DistNetworkError")):
        raise AssertionError(f"another type: {text[:100]}")
