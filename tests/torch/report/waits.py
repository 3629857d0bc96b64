"""What ends or interrupts a wait: timeouts of three kinds, aborts and signals."""

import ctypes
import datetime
import os
import signal
import threading
import time

import torch
import torch.distributed as dist

from . import LATE, check, in_ranks, raises, sum_of_ranks


def cpu_backend(group=None):
    return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))


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
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
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
    check(place, "the other group", value, torch.full((4,), float(sum_of_ranks(place))))


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
    check(place, "the other group", value, torch.full((4,), float(sum_of_ranks(place))))


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
    check(place, "sum", value, torch.full((3,), float(sum_of_ranks(place))))


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


def shared_tensor(place, name, count=1000):
    """A tensor in a file, so that other ranks see when it is written."""
    return torch.from_file(place.shared(name), shared=True, size=count, dtype=torch.float32)


@in_ranks(limit_s=60)
def calls_end_while_a_thread_holds_pythons_lock(place):
    """Rank 0 has a call in flight of each kind when one of its threads sleeps in C for 5 s with Python's lock. The
    others come 1.5 s later. All calls end on all ranks while rank 0 can run no Python."""
    kinds = ["synchronous", "waited for", "left alone"]
    if place.rank == 0:
        for kind in kinds:
            shared_tensor(place, kind).zero_()
    place.start()
    groups = [dist.new_group() for _ in kinds]
    values = [shared_tensor(place, kind) for kind in kinds]
    expected = torch.full((1000,), float(sum_of_ranks(place) + place.size))
    dist.barrier()
    if place.rank == 0:
        for value in values:
            value.fill_(1.0)
        left_alone = dist.all_reduce(values[2], group=groups[2], async_op=True)
        work = dist.all_reduce(values[1], group=groups[1], async_op=True)
        waiter = threading.Thread(target=work.wait)
        waiter.start()
        released = []

        def hold():
            time.sleep(0.5)
            ctypes.PyDLL(None).usleep(5_000_000)  # unlike CDLL, PyDLL keeps Python's lock
            released.append(time.monotonic())

        holder = threading.Thread(target=hold)
        holder.start()
        dist.all_reduce(values[0], group=groups[0])
        holder.join()
        waiter.join()
        left_alone.wait()
        for kind, value in zip(kinds, values):
            check(place, kind, value, expected)
        dist.broadcast_object_list(released)
        return
    time.sleep(1.5)
    for group in reversed(groups):
        dist.all_reduce(torch.full((1000,), float(place.rank + 1)), group=group)
    while not all(torch.equal(value, expected) for value in values):  # as rank 0 has them
        time.sleep(0.01)
    ended = time.monotonic()
    released = [None]
    dist.broadcast_object_list(released)
    if (ended < released[0] - 2) is place.control:
        raise AssertionError(f"the calls ended {released[0] - ended:.1f} s before rank 0 gave Python's lock back")
