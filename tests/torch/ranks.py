"""Starts ranks as forks of this process, which has imported torch already, and says how each of them ended."""

import argparse
import contextlib
import dataclasses
import datetime
import inspect
import os
import pickle
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback

# Where the tensors of the cases lie: "cpu", or "cuda" on a machine that has such a device.
DEVICE = os.environ.get("TEST_DEVICE", "cpu")
if DEVICE == "cpu":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (the variables above must be set before torch is imported)
import torch._dynamo  # noqa: E402, F401  (here once, not in every rank: the first optimizer would import it)
import torch.distributed as dist  # noqa: E402


def against_reference(description, limit_s):
    """Arguments of a program whose cases run under a backend and under the one that it is compared with."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--backend", default="sinew")
    arguments.add_argument("--reference", default="gloo" if DEVICE == "cpu" else "nccl")
    arguments.add_argument("--world-size", type=int, default=2)
    arguments.add_argument("--only", default="", metavar="REGEX")
    arguments.add_argument(
        "--limit", type=float, default=limit_s, metavar="S", help="seconds for one case under one backend"
    )
    arguments.add_argument("--verbose", action="store_true", help="print what the ranks of a failed case said")
    arguments.add_argument("--list", action="store_true")
    return arguments


class Skip(Exception):
    """Raised by a case on every rank where it cannot run; the text is the reason."""


@dataclasses.dataclass
class Place:
    """What one rank of a case knows."""

    backend: str
    rank: int
    size: int
    folder: str  # shared by the ranks of one run
    store: object = None
    control: bool = False  # a negative control: the case must fail now

    def shared(self, name):
        return os.path.join(self.folder, name)

    def start(self, timeout_s=60, store=None, **more):
        """Makes the default group."""
        timeout = datetime.timedelta(seconds=timeout_s)
        store = store or self.meet(timeout)
        dist.init_process_group(
            self.backend, store=store, rank=self.rank, world_size=self.size, timeout=timeout, **more
        )

    def meet(self, timeout, name="port"):
        """A TCPStore that rank 0 opens on a port that the kernel chooses and tells through the folder."""
        path = self.shared(name)
        if self.rank == 0:
            self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timeout)
            with open(path + ".new", "w", encoding="utf-8") as out:
                out.write(str(self.store.port))
            os.rename(path + ".new", path)
            return self.store
        wait_for_file(path, timeout.total_seconds())
        with open(path, encoding="utf-8") as port:
            self.store = dist.TCPStore("127.0.0.1", int(port.read()), is_master=False, timeout=timeout)
        return self.store


@dataclasses.dataclass
class Ending:
    """How one rank ended."""

    rank: int
    result: object = None
    error: str = ""  # the traceback of an exception that left the body
    skipped: str = ""
    code: int = 0  # exit status; a signal is negative
    hung: bool = False  # the rank was killed at the time limit
    seconds: float = 0.0
    output: str = ""

    def trouble(self):
        """Why this ending is a failure, in one line; empty if it is none."""
        if self.hung:
            return f"rank {self.rank} hung and was killed"
        if self.error:
            return f"rank {self.rank}: {self.error.strip().splitlines()[-1]}"
        if self.code < 0:
            return f"rank {self.rank} was ended by {signal.Signals(-self.code).name}"
        if self.code > 0:
            return f"rank {self.rank} ended with exit code {self.code}"
        return ""


def wait_for_file(path, limit_s=30):
    end = time.monotonic() + limit_s
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError(f"nobody wrote {path} within {limit_s} s")
        time.sleep(0.002)


def run(body, backend, size, limit_s=60, folder=None, control=False):
    """Runs body(place) in `size` forked ranks; returns one Ending for each rank. No rank outlives the call."""
    own = folder or tempfile.mkdtemp(prefix="sinew_ranks_")
    try:
        places = [Place(backend, rank, size, own, control=control) for rank in range(size)]
        sys.stdout.flush()
        sys.stderr.flush()
        return wait_for([fork(body, place) for place in places], own, limit_s)
    finally:
        if folder is None:
            shutil.rmtree(own, ignore_errors=True)


def fork(body, place):
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        os._exit(rank_main(body, place))
    with contextlib.suppress(OSError):
        os.setpgid(child, child)  # both sides do it, so that it is done whoever comes first
    return child


def use_device(rank):
    """Makes the calling thread work on the device of that rank. Each thread has its own default device."""
    if DEVICE != "cpu":  # a default device, even the CPU, costs each call of torch a few microseconds
        torch.set_default_device(DEVICE)
    if DEVICE == "cuda" and torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())  # otherwise DeviceMesh uses LOCAL_RANK


def rank_main(body, place):
    """What a forked rank does; returns its exit code."""
    log = os.open(place.shared(f"{place.rank}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(
        RANK=str(place.rank), WORLD_SIZE=str(place.size), LOCAL_RANK=str(place.rank), LOCAL_WORLD_SIZE=str(place.size)
    )
    # Ranks may share a device. NCCL takes one rank for each device of a host, so each says that it is on its own host.
    if DEVICE == "cuda":
        os.environ["NCCL_HOSTID"] = f"host{place.rank}"
    said = {}
    try:
        torch.set_num_threads(1)
        use_device(place.rank)
        said["result"] = body(place)
    except Skip as reason:
        said["skipped"] = str(reason)
    except BaseException:
        said["error"] = traceback.format_exc()
    with open(place.shared(f"{place.rank}.result"), "wb") as out:
        pickle.dump(said, out)
    sys.stdout.flush()
    sys.stderr.flush()
    return 1 if "error" in said else 0


def wait_for(children, folder, limit_s):
    started = time.monotonic()
    endings = [Ending(rank) for rank in range(len(children))]
    watched = {os.pidfd_open(child): rank for rank, child in enumerate(children)}
    while watched:
        left = started + limit_s - time.monotonic()
        ready = select.select(list(watched), [], [], max(left, 0))[0]
        if not ready:
            for rank in watched.values():
                endings[rank].hung = True
                end_group(children[rank])
            ready = list(watched)
        for descriptor in ready:
            rank = watched.pop(descriptor)
            os.close(descriptor)
            endings[rank].code = os.waitstatus_to_exitcode(os.waitpid(children[rank], 0)[1])
            endings[rank].seconds = time.monotonic() - started
            end_group(children[rank])  # what the rank itself had forked
    for ending in endings:
        read_what_was_said(ending, folder)
    return endings


def end_group(child):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def read_what_was_said(ending, folder):
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
        with open(os.path.join(folder, f"{ending.rank}.result"), "rb") as said:
            for name, value in pickle.load(said).items():
                setattr(ending, name, value)
    with contextlib.suppress(OSError):
        with open(os.path.join(folder, f"{ending.rank}.log"), encoding="utf-8", errors="replace") as log:
            ending.output = log.read()


def run_reference(start):
    """Returns the endings of start(), which runs the reference. If a signal ended a rank, it runs once more: on a busy
    machine Gloo sometimes aborts, and the reference is not what is tested."""
    endings = start()
    if any(ending.code < 0 and not ending.hung for ending in endings):
        print(f"once more: under the reference, {first_trouble(endings)}", flush=True)
        endings = start()
    return endings


def first_trouble(endings):
    """The most telling failure: a failed check, another exception, a signal, a hang. Empty if there is none."""
    order = sorted(
        (e for e in endings if e.trouble()), key=lambda e: ("AssertionError" not in e.error, not e.error, e.hung)
    )
    return order[0].trouble() if order else ""


def has_monitored_barrier(backend):
    """Some versions of torch, 2.11 among them, refuse monitored_barrier for every backend whose name is not "gloo"."""
    return backend == "gloo" or "only implemented for GLOO" not in inspect.getsource(dist.monitored_barrier)


def free_port():
    """A TCP port of the loopback interface that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(size, *rest):
    """The command that starts a program by torchrun. `rest`: options of torchrun, then the program and its arguments."""
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size), *rest]
