"""Calls of the extension with random arguments. Each returns or raises an exception, and the World works after it.

    fuzz.py --seconds 60 --seed 1

Exit code 0: nothing else happened. Under the address sanitizer a wrong access ends the process.
"""

import argparse
import array
import itertools
import random
import sys
import time

import sinew

try:
    import ml_dtypes
    import numpy as np
except ModuleNotFoundError:
    np = None

EXPECTED = (sinew.Error, TypeError, ValueError, OverflowError, BufferError, MemoryError)


class Odd:
    """An object whose memory and attributes raise."""

    def __dlpack__(self, **_):
        raise RuntimeError("odd")

    def __index__(self):
        raise ZeroDivisionError("odd")

    def __getattr__(self, name):
        raise KeyError(name)


def arrays(rng):
    """An array, or what is none."""
    count = rng.choice((0, 1, 2, 3, 8, 100, 5000))
    choices = [
        lambda: bytearray(count), lambda: bytes(count), lambda: memoryview(bytearray(count))[:: rng.choice((1, 2, -1))],
        lambda: array.array(rng.choice("bBhHiIlLqQfd"), [0] * count), lambda: None, lambda: 3, lambda: "text",
        lambda: Odd(), lambda: object, lambda: [bytearray(count)] * rng.choice((0, 1, 2)), lambda: [Odd()],
        lambda: memoryview(array.array("d", [0.0] * (4 * (count // 4)))).cast("B").cast("d", [count // 4 or 1, 4]) if count >= 4 else b"",
    ]
    if np is not None:
        kinds = ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", ">f8", "S3", "O", "M8[s]",
                 ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4)

        def numpy_array():
            data = np.zeros(count, np.dtype(rng.choice(kinds)))
            if rng.random() < 0.2:
                data = data[:: rng.choice((2, -1))]
            if rng.random() < 0.1:
                data.flags.writeable = False
            return data.reshape(rng.choice(([-1], [1, -1], [-1, 1]))) if rng.random() < 0.2 else data

        choices += [numpy_array] * 8 + [lambda: np.zeros(()), lambda: np.float32(3), lambda: [numpy_array()]]
    return rng.choice(choices)()


def numbers(rng):
    return rng.choice((0, 0, 0, 1, -1, 2, 7, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**30, 1.5, None, "0", True, Odd()))


def counts(rng):
    return rng.choice(([0], [1], [3], [8], [100], [], [1, 2], [-1], [2**62], [2**63], [2**64], ["x"], (5,), None, 3, "ab", [Odd()],
                       itertools.repeat(Odd(), 2), array.array("q", [8]), b"\x08"))


def options(rng):
    made = {}
    if rng.random() < 0.3:
        made["op"] = rng.choice(("sum", "max", "avg", "premulsum", "band", "nonsense", "\ud800", 3, None, max, Odd(), lambda a, b: a,
                                 lambda a, b: 1 / 0, lambda a, b: a[:1]))
    if rng.random() < 0.1:
        made["factor"] = rng.choice((0.5, float("nan"), "x", 2**2000))
    if rng.random() < 0.2:
        made["timeout"] = rng.choice((None, 5, 1.0, float("inf"), float("nan"), -1, 0, "x", 1e300, Odd(), 2**2000))
    for name in ("determinism", "codec"):
        if rng.random() < 0.1:
            made[name] = rng.choice((None, "fast", "reproducible", "layout_invariant", "none", "bf16", "int8", "x", 3, "\ud800"))
    if rng.random() < 0.1:
        made["label"] = rng.choice(("step 3", "", "x" * 5000, "\ud800", "a\0b", 3, None))
    if rng.random() < 0.05:
        made["after"] = rng.choice((0, 1, -1, 2**64, "x"))
    if rng.random() < 0.02:
        made["unknown"] = 1
    return made


def drop_reducing(given):
    return {name: value for name, value in given.items() if name not in ("op", "factor")}


class Fuzz:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.works = []
        self.called = self.returned = 0
        self.open()

    def open(self):
        self.world = sinew.World(threads=self.rng.choice(("single", "multiple")), timeout=5)
        self.c = self.world.communicator
        self.works = []

    def step(self):
        rng, c = self.rng, self.c
        start = rng.choice(("", "start_"))
        a, b = arrays(rng), arrays(rng)
        if rng.random() < 0.3 and np is not None and isinstance(a, np.ndarray):
            b = rng.choice((a, a.copy(), a[:1] if a.ndim else a))
        reducing = options(rng)
        plain = drop_reducing(reducing)
        short = {name: value for name, value in plain.items() if name in ("timeout", "label", "after")}
        call = lambda name: getattr(c, start + name)
        return rng.choice((
            lambda: call("all_reduce")(a, rng.choice((None, b)), **reducing),
            lambda: call("all_gather")(a, b, **plain),
            lambda: call("reduce_scatter")(a, b, **reducing),
            lambda: call("all_to_all")(a, b, **plain),
            lambda: call("broadcast")(a, numbers(rng), **plain),
            lambda: call("reduce")(a, b, numbers(rng), **reducing),
            lambda: call("gather")(a, b, numbers(rng), **plain),
            lambda: call("scatter")(a, b, numbers(rng), **plain),
            lambda: call("all_gather_v")(a, b, counts(rng), counts(rng), **plain),
            lambda: call("reduce_scatter_v")(a, b, counts(rng), counts(rng), **reducing),
            lambda: call("all_to_all_v")(a, b, counts(rng), counts(rng), counts(rng), counts(rng), **plain),
            lambda: call("gather_v")(a, b, counts(rng), numbers(rng), **plain),
            lambda: call("scatter_v")(a, b, counts(rng), numbers(rng), **plain),
            lambda: call("sendrecv")(a, numbers(rng), b, numbers(rng), **short),
            lambda: call("group")([sinew.Message.send(a, 0, 9), sinew.Message.recv(b, numbers(rng), 9)], **short),
            lambda: c.start_send(a, numbers(rng), numbers(rng), **short),
            lambda: call("barrier")(**{k: v for k, v in short.items() if k != "after"}),
            lambda: self.plan(a, b),
            lambda: c.split(numbers(rng), numbers(rng), rng.choice(("", "x" * 100, "\ud800", 3))),
            lambda: self.world.subgroup(counts(rng), rng.choice(("", "g"))),
            lambda: self.world.allocate(numbers(rng)) if rng.random() < 0.1 else self.world.facts(),
            lambda: sinew.Config().describe(),
            lambda: self.works and rng.choice(self.works).test(),
            lambda: self.works and rng.choice(self.works).wait(rng.choice((None, 0.1, "x", Odd()))),
            lambda: self.works and rng.choice(self.works).then(rng.choice((lambda e: None, lambda: 0, 3))),
            lambda: self.works and rng.choice(self.works).order(numbers(rng), numbers(rng)),
            lambda: c.objects.all_gather(a if not isinstance(a, Odd) else 1),
            lambda: sinew.World.create(numbers(rng), numbers(rng), rng.choice((lambda m: [m], lambda m: m, lambda m: [3], 3))).close(),
        ))()

    def plan(self, a, b):
        rng = self.rng
        plan = self.c.plan(rng.choice(("all_reduce", "all_gather", "barrier", "send", "all_to_all_v", "x", 3)),
                           rng.choice((0, 1, 8, 100, 2**40, 2**63, 2**64)), rng.choice(("float32", "f64", "x", 3)),
                           root=rng.choice((0, 1, -1)), counts=counts(rng))
        plan.explain()
        return (plan.run if rng.random() < 0.5 else plan.start)(a, b)

    def run(self, seconds):
        until = time.monotonic() + seconds
        sys.unraisablehook = lambda _: None  # functions that then() calls may raise
        while time.monotonic() < until:
            self.called += 1
            try:
                result = self.step()
                self.returned += 1
                if isinstance(result, sinew.Work) and self.rng.random() < 0.5:
                    self.works.append(result)
            except EXPECTED:
                pass
            except (ZeroDivisionError, KeyError, RuntimeError):  # those of the objects above
                pass
            if self.called % 50 == 0:
                self.judge()
            if self.called % 400 == 0 or len(self.works) > 50:
                self.close()

    def judge(self):
        """The World still adds, unless a reduction or a message without a peer has ended its communicator."""
        data = array.array("d", [1.0, 2.0])
        try:
            self.c.all_reduce(data)
        except (sinew.Aborted, sinew.Timeout):
            self.close()
            return
        if list(data) != [1.0, 2.0]:
            raise SystemExit(f"after {self.called} calls the sum of one rank is {list(data)}, expected [1.0, 2.0]")

    def close(self):
        self.works.clear()
        self.world.abort("the test is over")  # ends receives that nobody sends to
        self.world.close()
        self.open()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    fuzz = Fuzz(given.seed)
    fuzz.run(given.seconds)
    fuzz.close()
    fuzz.world.close()
    print(f"{fuzz.called} calls with seed {given.seed}: {fuzz.returned} returned, {fuzz.called - fuzz.returned} were refused")
    if fuzz.returned < fuzz.called / 20 or fuzz.returned == fuzz.called:
        raise SystemExit("too few calls of one kind: the arguments are not as random as they should be")


if __name__ == "__main__":
    main()
