"""Starts the ranks of a measurement as forks of this process, which has imported torch already."""

import datetime
import multiprocessing
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402  (the two variables above must be set before torch is imported)
import torch._dynamo  # noqa: E402, F401  (once here, not in every rank)
import torch.distributed as dist  # noqa: E402


def launch(world_size, body):
    """Runs body(rank) in forked ranks whose default group is gloo's, and returns what rank 0's call returned."""
    fork = multiprocessing.get_context("fork")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    receiver, sender = fork.Pipe(duplex=False)
    started = [
        fork.Process(target=rank_main, args=(rank, world_size, store.port, body, sender)) for rank in range(world_size)
    ]
    for process in started:
        process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise SystemExit("a rank has failed: see its traceback above") from None
    finally:
        for process in started:
            process.join(10)
            process.kill()


def rank_main(rank, world_size, port, body, sender):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=60))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    answer = body(rank)
    if rank == 0:
        sender.send(answer)
    dist.destroy_process_group()


def slowest(seconds):
    """The largest value of all ranks, through the default group."""
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.item()
