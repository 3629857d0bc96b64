#!/usr/bin/env python3
"""Kills, stops and confuses ranks at random moments. Every other rank must raise soon and name the right one.

    kills.py --trials 100 --seed 1
    kills.py --trials 20 --only stop --verbose
    kills.py --trials 6 --control       nothing is done to any rank: every trial must fail

A trial starts 2 to 4 ranks as processes. They repeat one kind of work. At a random moment one rank is killed or stopped,
or it makes a call that does not match those of the others. Each other rank must raise a DistBackendError that names this
rank within 2 s. If the rank was stopped, the error must come within 2 s after the group's timeout and say that the rank
is late. A rank that has raised ends at once, as a script does. At the end torchrun runs a job that loses a rank at a
random moment of each round. It must start the job again until the job finishes.
A trial that failed is repeated by the seed that its line names: --trials 1 --seed N. Exit: 0 if nothing failed, else 1.
"""

import argparse
import contextlib
import datetime
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

import ranks
import torch
import torch.distributed as dist
from report import processes

KINDS = ["kill", "stop", "mismatch"]
SOON_S = 2.0  # within which every survivor must raise
LATE_AFTER_S = 2.0  # the timeout of the group where a rank is stopped
LONGEST_S = 40  # of one trial
ROUNDS = 3  # that torchrun's job loses


class Loop:
    """What all ranks of a trial do over and over. `odd`: this rank's calls do not match those of the others."""

    def __init__(self, place, seed):
        self.rank, self.size = place.rank, place.size
        self.choice = random.Random(seed)  # the same on all ranks
        self.own_choice = random.Random(f"{seed} {place.rank}")
        self.model = None

    def small(self, odd):
        dist.all_reduce(torch.ones(9 if odd else 8))

    def large(self, odd):
        dist.all_reduce(torch.ones(1 << 20), op=dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM)

    def asynchronous(self, odd):
        works = [dist.all_reduce(torch.ones(1000 + i + odd), async_op=True) for i in range(8)]
        for work in works:
            work.wait()

    def with_pauses(self, odd):
        """A rank is as likely outside of a call as in one."""
        time.sleep(0.03 * self.own_choice.random())
        value = torch.ones(1000)
        dist.broadcast(value, 0) if odd else dist.all_reduce(value)

    def collectives(self, odd):
        """Each of these moves data from every rank to every other one."""
        count = self.choice.randrange(1, 5000)
        which = self.choice.randrange(4)
        dtype = torch.float64 if odd else torch.float32
        whole = torch.ones(count * self.size, dtype=dtype)
        part = torch.ones(count, dtype=dtype)
        if which == 0:
            dist.all_gather_into_tensor(whole, part)
        elif which == 1:
            dist.reduce_scatter_tensor(part, whole)
        elif which == 2:
            dist.all_to_all_single(torch.empty_like(whole), whole)
        else:
            dist.all_gather([torch.empty_like(part) for _ in range(self.size)], part)

    def barriers(self, odd):
        dist.all_reduce(torch.ones(1)) if odd else dist.barrier()

    def ddp(self, odd):
        if self.model is None:
            layers = [torch.nn.Linear(256, 256) for _ in range(4)]
            self.model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.3)
        self.model.zero_grad()
        if odd:
            dist.all_reduce(torch.ones(3))
        self.model(torch.ones(4, 256)).sum().backward()

    def messages(self, odd):
        """Around a ring, with a message in each direction."""
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        count = self.choice.choice([4, 1000, 300_000])
        batch = [
            dist.P2POp(dist.isend, torch.ones(count), right),
            dist.P2POp(dist.irecv, torch.empty(count), left),
            dist.P2POp(dist.isend, torch.ones(count), left),
            dist.P2POp(dist.irecv, torch.empty(count), right),
        ]
        for work in dist.batch_isend_irecv(batch):
            work.wait()

    def blocking_messages(self, odd):
        """From rank to rank, and back to the first."""
        value = torch.ones(1000)
        if self.rank:
            dist.recv(value, self.rank - 1)
        dist.send(value, (self.rank + 1) % self.size)
        if self.rank == 0:
            dist.recv(value, self.size - 1)


COLLECTIVES = ["small", "large", "asynchronous", "with_pauses", "collectives", "barriers", "ddp"]
MESSAGES = ["messages", "blocking_messages"]


class Trial:
    """All that is chosen by one seed: the kind in turn, everything else by chance."""

    def __init__(self, seed, only, work):
        chance = random.Random(f"trial {seed}")
        kinds = [kind for kind in KINDS if re.search(only, kind)]
        self.seed = seed
        self.kind = kinds[seed % len(kinds)]
        self.size = chance.randint(2, 4)
        self.victim = chance.randrange(self.size)
        # A message that is longer than its buffer concerns two ranks and not all of them.
        works = COLLECTIVES if self.kind == "mismatch" else COLLECTIVES + MESSAGES
        self.work = chance.choice([name for name in works if re.search(work, name)])
        self.after_s = chance.uniform(0.0, 0.4)
        self.store_of_a_rank = chance.random() < 0.5  # else of a process that is no rank
        self.goes_on = chance.random() < 0.5  # a stopped rank is continued when the others have ended, else killed

    def name(self):
        end = {"kill": "killed", "stop": "stopped", "mismatch": "mismatched"}[self.kind]
        return f"trial {self.seed}, rank {self.victim} of {self.size} {end} in {self.work}"


def body_of(trial):
    def body(place):
        place.start(store=None if trial.store_of_a_rank else join_store(place))
        work = getattr(Loop(place, trial.seed), trial.work)
        work(False)
        dist.barrier()
        if trial.kind == "stop":
            dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=LATE_AFTER_S), dist.group.WORLD)
        touch(place.shared(f"{place.rank}.ready"))
        started, confused_at = time.monotonic(), None
        try:
            while time.monotonic() < started + (3 if place.control else LONGEST_S):
                odd = trial.kind == "mismatch" and place.rank == trial.victim and not place.control
                odd = odd and time.monotonic() > started + trial.after_s
                if odd and confused_at is None:
                    confused_at = time.monotonic()
                work(odd)
        except RuntimeError as error:
            return {
                "at": time.monotonic(),
                "type": type(error).__name__,
                "text": str(error),
                "confused_at": confused_at,
            }
        return None

    return body


def touch(path):
    with open(path, "w", encoding="utf-8"):
        pass


def hold_store(place):
    """What a process that is no rank does: it has the store, as an agent of torchrun does."""
    place.meet(datetime.timedelta(seconds=LONGEST_S), "port of the agent")
    signal.pause()


def join_store(place):
    path = place.shared("port of the agent")
    ranks.wait_for_file(path)
    with open(path, encoding="utf-8") as port:
        return dist.TCPStore("127.0.0.1", int(port.read()), is_master=False)


def wait_for_files(paths, limit_s):
    """Whether all of them are there in time."""
    with contextlib.suppress(TimeoutError):
        for path in paths:
            ranks.wait_for_file(path, limit_s)
        return True
    return False


class Event(threading.Thread):
    """Does to the victim what is done from outside, when all ranks are at work."""

    def __init__(self, trial, children, folder):
        super().__init__(daemon=True)
        self.trial, self.victim, self.folder = trial, children[trial.victim], folder
        self.at = None

    def files(self, name, without=()):
        return [os.path.join(self.folder, f"{rank}.{name}") for rank in range(self.trial.size) if rank not in without]

    def run(self):
        if not wait_for_files(self.files("ready"), LONGEST_S / 2):
            return
        time.sleep(self.trial.after_s)
        self.at = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            if self.trial.kind == "kill":
                os.kill(self.victim, signal.SIGKILL)
                return
            os.kill(self.victim, signal.SIGSTOP)
            wait_for_files(self.files("result", without=[self.trial.victim]), LATE_AFTER_S + 4 * SOON_S)
            os.kill(self.victim, signal.SIGCONT if self.trial.goes_on else signal.SIGKILL)


def run_trial(trial, given):
    """(what is wrong, seconds that each survivor took)"""
    folder, agent = tempfile.mkdtemp(prefix="sinew_kills_"), None
    try:
        body, everyone = body_of(trial), range(trial.size)
        places = [ranks.Place(given.backend, rank, trial.size, folder, control=given.control) for rank in everyone]
        agent = None if trial.store_of_a_rank else ranks.fork(hold_store, places[0])
        children = [ranks.fork(body, place) for place in places]
        event = Event(trial, children, folder)
        if trial.kind != "mismatch" and not given.control:
            event.start()
        endings = ranks.wait_for(children, folder, LONGEST_S)
        if event.ident:
            event.join()
        if given.verbose:
            for ending in endings:
                print(f"  rank {ending.rank}: {ending.output}{ending.error}{ending.result}")
        return judge(trial, event.at, endings)
    finally:
        if agent:
            ranks.end_group(agent)
            os.waitpid(agent, 0)
        shutil.rmtree(folder, ignore_errors=True)


def judge(trial, event_at, endings):
    by_itself = endings[trial.victim].result if isinstance(endings[trial.victim].result, dict) else {}
    event_at = by_itself.get("confused_at") if trial.kind == "mismatch" else event_at
    troubles, times = [], []
    for ending in endings:
        survivor = ending.rank != trial.victim
        if ending.hung or ending.error or (survivor and ending.code):
            troubles.append(ending.trouble())
        elif survivor or trial.kind == "mismatch" or (trial.kind == "stop" and trial.goes_on):
            if not ending.result:
                troubles.append(f"rank {ending.rank} did not raise")
                continue
            text = ending.result["text"]
            if ending.result["type"] != "DistBackendError":
                troubles.append(f"rank {ending.rank} raised {ending.result['type']}: {text}")
            elif survivor:
                if event_at is None:
                    troubles.append(f"rank {ending.rank} raised before anything was done: {text}")
                    continue
                took = ending.result["at"] - event_at
                times.append(took)
                wrong = wrong_text(trial, text) or wrong_time(trial, took)
                if wrong:
                    troubles.append(f"rank {ending.rank} {wrong} (after {took:.2f} s): {text}")
    return "; ".join(troubles), times


def wrong_time(trial, took):
    least, most = (0.9 * LATE_AFTER_S, LATE_AFTER_S + SOON_S) if trial.kind == "stop" else (0.0, SOON_S)
    return "" if least <= took <= most else f"raised at another time than after {least} to {most} s"


def wrong_text(trial, text):
    verdict, blame = {
        "kill": (r"\[PeerLost\]", r"\brank {} \([^)]*\) ended: killed by signal 9"),
        "stop": ("Timed out", r"\brank {} is late\b.* its process is stopped"),
        "mismatch": (r"\[Mismatch\]", r"\brank {}: "),  # the only one that made this call
    }[trial.kind]
    if not re.search(verdict, text):
        return f"does not say '{verdict}'"
    return "" if re.search(blame.format(trial.victim), text) else f"does not blame rank {trial.victim}"


def under_torchrun(given):
    """(what is wrong): a job that loses a rank in each round but the last"""
    given.world_size = 2
    os.environ.update(KILLS_SEED=str(given.seed), KILLS_ROUNDS=str(ROUNDS))
    restarts = "0" if given.control else str(ROUNDS)
    how = ["--max-restarts", restarts, "--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    try:
        done = processes.torchrun(given, *how, job="killed_in_each_round", limit_s=25 * (ROUNDS + 1))
    except AssertionError as error:
        return str(error)
    right = done.stdout.count(f"is right in round {ROUNDS}")
    if done.returncode or right != given.world_size:
        return f"torchrun ended with {done.returncode}, {right} ranks were right; {done.stderr[-500:]}"
    return ""


def percentile(times, part):
    return sorted(times)[min(int(part * len(times)), len(times) - 1)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="sinew")
    arguments.add_argument("--trials", type=int, default=6, metavar="N")
    arguments.add_argument("--seed", type=int, default=1, metavar="N", help="of the first trial; the next has N + 1")
    arguments.add_argument("--only", default="", metavar="REGEX", help=", ".join(KINDS) + " or torchrun")
    arguments.add_argument("--work", default="", metavar="REGEX", help=", ".join(COLLECTIVES + MESSAGES))
    arguments.add_argument("--control", action="store_true", help="negative controls: every trial must fail")
    arguments.add_argument("--verbose", action="store_true", help="print what the ranks said")
    given = arguments.parse_args()
    counts, times = {"passed": 0, "failed": 0}, {kind: [] for kind in KINDS}

    def note(name, run):
        started = time.monotonic()
        trouble = run()
        if given.control:
            trouble = "" if trouble else "the negative control has passed"
        outcome = "failed" if trouble else "passed"
        counts[outcome] += 1
        reason = f"  ({trouble[:1000]})" if trouble else ""
        print(f"{outcome:8}{time.monotonic() - started:6.1f} s  {name}{reason}", flush=True)

    def one(trial):
        trouble, took = run_trial(trial, given)
        times[trial.kind] += took
        return trouble

    if any(re.search(given.only, kind) for kind in KINDS):
        for seed in range(given.seed, given.seed + given.trials):
            trial = Trial(seed, given.only, given.work)
            note(trial.name(), lambda trial=trial: one(trial))
    if re.search(given.only, "torchrun"):
        note(f"torchrun, a rank killed in each of {ROUNDS} rounds", lambda: under_torchrun(given))
    for kind, took in times.items():
        if took:
            middle, tail = statistics.median(took), percentile(took, 0.9)
            print(
                f"{kind}: {len(took)} survivors raised after {min(took):.3f} s at least, {middle:.3f} s in the median, "
                f"{tail:.3f} s at the 90th percentile, {max(took):.3f} s at most"
            )
    print(f"backend {given.backend}: {counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
