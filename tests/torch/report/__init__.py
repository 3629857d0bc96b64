"""The cases of reports.py, by kind, and how they check. Expected values are computed from the rank numbers alone."""

import dataclasses
import re
import threading
import time

import torch

CASES = []
LATE = "timed out|closed|timeout"  # what PyTorch's own suite expects of the text of a timeout


@dataclasses.dataclass(frozen=True)
class Case:
    """`body` is called in every rank with its Place; where `apart` is set it is called once with all that was given on
    the command line, and starts its processes itself. `dying` holds the ranks whose end is the case's purpose."""

    name: str
    body: object
    apart: bool = False
    dying: tuple = ()
    least_ranks: int = 2
    limit_s: float = 30
    needs_flag: str = ""


def in_ranks(**options):
    def add(body):
        CASES.append(Case(body.__name__, body, **options))
        return body

    return add


def apart(**options):
    return in_ranks(apart=True, **options)


def in_threads(arguments, work):
    """Calls work(argument) for each argument in a thread of its own. Raises what one of them raised, after all ended."""
    troubles = []

    def call(argument):
        try:
            work(argument)
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=call, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        raise troubles[0]


def check(place, what, found, expected):
    """Raises if `found` is not `expected`, bit by bit. A negative control expects something else."""
    if isinstance(expected, torch.Tensor):
        expected = other_tensor(expected) if place.control else expected
        if (
            found.dtype != expected.dtype
            or found.shape != expected.shape
            or not torch.equal(bits(found), bits(expected))
        ):
            raise AssertionError(f"{what}: found {brief(found)}, expected {brief(expected)}")
        return
    if (found == expected) is place.control:
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


def other_tensor(tensor):
    if tensor.numel() == 0:
        return torch.zeros(1, dtype=tensor.dtype)
    changed = bits(tensor).clone()
    changed.view(-1)[0] ^= 1
    return changed.view(tensor.dtype).reshape(tensor.shape)


def bits(tensor):
    return tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def brief(tensor):
    return f"{tensor.dtype} {list(tensor.shape)} {tensor.reshape(-1)[:6].tolist()}"


def raises(what, call, *words, least_s=0.0, most_s=15.0):
    """Calls `call`, which must raise an error of torch's within the given time; its text must match each of `words`."""
    started = time.monotonic()
    try:
        call()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        text, took = f"{type(error).__name__}: {error}", time.monotonic() - started
    else:
        raise AssertionError(f"{what}: did not raise")
    for word in words:
        if not re.search(word, text, re.IGNORECASE):
            raise AssertionError(f"{what}: the error does not say '{word}': {text[:300]}")
    if not least_s <= took <= most_s:
        raise AssertionError(f"{what}: raised after {took:.1f} s, expected {least_s} to {most_s} s: {text[:200]}")
    return text


def sum_of_ranks(place):
    """0 + 1 + ... over all ranks of the world."""
    return place.size * (place.size - 1) // 2
