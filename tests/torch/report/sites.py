"""How calls are named in errors and by sinew-info: by the line of Python, or by operation, number and shape."""

import datetime
import os
import re
import subprocess
import time

import ranks
import torch
import torch.distributed as dist

from . import LATE, apart, in_ranks, raises


def line_of(function, offset=1):
    """A line of this file as errors name it, counted from the one that begins with def."""
    return rf"sites\.py:{function.__code__.co_firstlineno + offset}\b"


def reduce_now(value):
    dist.all_reduce(value)


def reduce_later(value):
    return dist.all_reduce(value, async_op=True)


def wait_for(work):
    work.wait()


def odd_size(place):
    return 20 if place.rank == place.size - 1 else 10


def words(place, *expected):
    """What an error must say. A negative control expects another line."""
    return [word + "0" if place.control else word for word in expected]


def one_line(value, group, later):
    return dist.all_reduce(value, group=group, async_op=later)


def another_line(value, group, later):
    return dist.all_reduce(value, group=group, async_op=later)


def by_a_deprecated_function(value, group):
    dist.all_reduce_coalesced([value], group=group)


@in_ranks()
def site_of_each_call_where_the_user_asks(place):
    """SINEW_PYTHON_SITES=1 also names a call that has not waited, and an asynchronous one by the line that made it."""
    os.environ["SINEW_PYTHON_SITES"] = "1"
    place.start(timeout_s=10)
    first, second, third = dist.new_group(), dist.new_group(), dist.new_group()
    dist.barrier()
    both = words(place, line_of(one_line), line_of(another_line))
    call = another_line if odd_size(place) == 20 else one_line
    raises("a synchronous call", lambda: call(torch.ones(odd_size(place)), first, False), r"\[Mismatch\]", *both)
    raises("an asynchronous call", lambda: call(torch.ones(odd_size(place)), second, True).wait(), r"Mismatch", *both)
    decorated = words(place, line_of(by_a_deprecated_function))
    raises("decorated", lambda: by_a_deprecated_function(torch.ones(odd_size(place)), third), "Mismatch", *decorated)


@in_ranks()
def name_of_an_asynchronous_call(place):
    """Without a line of Python it is named by operation, number and shape."""
    place.start(timeout_s=10)
    dist.barrier()

    def three_calls_and_one_that_differs():
        # As soon as two ranks have made different fourth calls, the group ends. A rank whose third call has not ended
        # yet gets the error from that call.
        for _ in range(3):
            dist.all_reduce(torch.ones(4))
        reduce_later(torch.ones(odd_size(place))).wait()

    text = raises(
        "an asynchronous call",
        three_calls_and_one_that_differs,
        r"\bcall \d+ on world of",
        *words(place, r"all_reduce\(f32, sum, count 10\)", r"all_reduce\(f32, sum, count 20\)"),
    )
    if "sites.py" in text:
        raise AssertionError(f"the call has waited for no 200 ms, but is named by a line: {text}")


def late(place, call, *expected):
    """Rank 1 does not call for 3 s. What the others say of their wait after 1 s names a line of this file."""
    place.start()
    dist.barrier()
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1), dist.group.WORLD)
    if place.rank == 1:
        time.sleep(3)
        if place.control:
            raise AssertionError("this rank checks nothing")
        return
    raises("a call that rank 1 does not make", call, LATE, *words(place, *expected), most_s=3)


@in_ranks()
def site_of_a_call_that_waits(place):
    late(place, lambda: reduce_now(torch.ones(3)), line_of(reduce_now))


@in_ranks()
def site_of_the_wait_for_an_asynchronous_call(place):
    late(place, lambda: wait_for(reduce_later(torch.ones(3))), "the wait in " + line_of(wait_for))


@apart(needs_flag="info")
def sinew_info_hang_names_lines_of_python(given):
    """Rank 0 waits in all_reduce, and rank 1 computes. sinew-info looks at the job from outside."""

    def job(place):
        place.start()
        dist.barrier()
        said = compute_and_look(given.info) if place.rank == 1 else None
        reduce_now(torch.ones(3))
        return said

    endings = ranks.run(job, given.backend, given.world_size)
    trouble = ranks.first_trouble(endings)
    if trouble:
        raise AssertionError(trouble)
    expected = [
        r"not called: rank \d has waited [0-9.]+ s in all_reduce\(f32, sum, count 3\) at " + line_of(reduce_now),
        "rank 1 is late: it has been in no call for ",
    ]
    for word in words(given, *expected):
        if not re.search(word, endings[1].result):
            raise AssertionError(f"sinew-info hang does not say '{word}': {endings[1].result}")


def compute_and_look(info):
    end = time.monotonic() + 2
    while time.monotonic() < end:
        torch.ones(100).sum()
    command = [info, "hang", "--process", str(os.getppid())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout + done.stderr
