"""A rank as users write it, for reports.py: `one_rank.py JOB BACKEND`, with RANK and WORLD_SIZE in the environment.

Ends with exit code 0 only if the job says so. MEETING is the init_method (env:// if it is not set).
"""

import copy
import os
import random
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch.distributed.device_mesh import init_device_mesh


def start(backend):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, init_method=os.environ.get("MEETING", "env://"), rank=rank, world_size=size)
    return rank, size


def sum_is_right(rank, size):
    value = torch.full((1000,), float(rank))
    dist.all_reduce(value)
    return bool((value == size * (size - 1) / 2).all())


def exit_after_a_call(backend):
    """Leaves the group as it is and ends with code 7."""
    return 7 if sum_is_right(*start(backend)) else 1


def exit_with_a_call_in_flight(backend):
    """As above, with a call that never ends and whose handle is kept."""
    rank, size = start(backend)
    right = sum_is_right(rank, size)
    exit_with_a_call_in_flight.kept = [
        dist.all_reduce(torch.ones(10), group=dist.new_group(), async_op=True) if rank == 0 else dist.new_group()
    ]
    return 7 if right else 1


def exit_with_a_continuation_in_flight(backend):
    """A continuation in Python hangs on a call of a rank that the others leave alone."""
    rank, size = start(backend)
    right = sum_is_right(rank, size)
    if rank == 0:
        work = dist.all_reduce(torch.ones(10), async_op=True)
        exit_with_a_continuation_in_flight.kept = work.get_future().then(lambda done: print("continued"))
    return 7 if right else 1


def exit_while_a_thread_waits(backend):
    rank, size = start(backend)
    right = sum_is_right(rank, size)
    if rank == 0:
        threading.Thread(target=dist.all_reduce, args=(torch.ones(10),), daemon=True).start()
    time.sleep(0.3 * (rank + 1))  # rank 0 goes first, while its thread waits
    return 7 if right else 1


def exit_in_the_middle_of_ddp(backend):
    """One rank ends between forward and backward."""
    rank, size = start(backend)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()
    loss = model(torch.ones(2, 4)).sum()
    if rank < size - 1:
        try:
            loss.backward()
        except RuntimeError:
            pass
    return 7


def exit_by_an_exception(backend):
    """Python's own exit code for an exception that nobody catches is 1."""
    rank, size = start(backend)
    if not sum_is_right(rank, size):
        os._exit(9)
    raise ValueError("the script's own error")


def exit_in_order(backend):
    right = sum_is_right(*start(backend))
    dist.destroy_process_group()
    return 0 if right else 1


def restart_once(backend):
    """In the first round the last rank ends in the middle. The round that torchrun starts then must be right."""
    rank, size = start(backend)
    if not sum_is_right(rank, size):
        return 1
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if rank == size - 1:
            os._exit(3)
        dist.all_reduce(torch.ones(10))  # ends with an error, or by torchrun's signal
        return 1
    dist.destroy_process_group()
    print(f"rank {rank} is right in round {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
    return 0


def killed_in_each_round(backend):
    """In each of KILLS_ROUNDS rounds one rank is killed at a random moment. The round that torchrun starts then must be
    right."""
    rank, size = start(backend)
    this_round = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    lost = this_round < int(os.environ["KILLS_ROUNDS"])
    chance = random.Random(f"{os.environ['KILLS_SEED']} {this_round}")
    victim, after_s = chance.randrange(size), chance.uniform(0.0, 0.3)
    if lost and rank == victim:
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
    end = time.monotonic() + 60
    while lost and time.monotonic() < end:
        sum_is_right(rank, size)  # ends with an error, or by torchrun's signal
    if not sum_is_right(rank, size):
        return 1
    dist.destroy_process_group()
    print(f"rank {rank} is right in round {this_round}", flush=True)
    return 0


def between_hosts(backend):
    """DDP-like traffic between hosts, with nothing set by hand but where to meet."""
    rank, size = start(backend)
    right = all(sum_is_right(rank, size) for _ in range(20))
    group = dist.new_group()
    value = torch.full((1 << 18,), float(rank))
    dist.all_reduce(value, group=group)
    right = right and bool((value == size * (size - 1) / 2).all())
    dist.destroy_process_group()
    print(f"rank {rank} is {'right' if right else 'wrong'}", flush=True)
    return 0 if right else 1


LARGE_LAYER = 1024  # inputs and outputs; its weights are 4 MiB


def large_layers_are_right(rank, size):
    """Whether a large layer has the mean gradient under DDP and under FSDP2."""
    torch.manual_seed(1)
    layer = torch.nn.Linear(LARGE_LAYER, LARGE_LAYER, bias=False)
    batches = torch.randn(size, 4, LARGE_LAYER)
    copies = [copy.deepcopy(layer) for _ in range(2)]
    for batch in batches:
        (layer(batch).square().sum() / size).backward()
    spread = torch.nn.parallel.DistributedDataParallel(copies[0])
    sharded = torch.distributed.fsdp.fully_shard(copies[1], mesh=init_device_mesh("cpu", (size,)))
    for model in (spread, sharded):
        model(batches[rank]).square().sum().backward()
    gradients = [spread.module.weight.grad, sharded.weight.grad.full_tensor()]
    return all(torch.allclose(gradient, layer.weight.grad, rtol=1e-4, atol=1e-4) for gradient in gradients)


STRATEGIES = ["ddp_plain", "ddp_small_buckets", "fsdp2_f32", "fsdp2_hybrid"]


def strategies_between_hosts(backend):
    """Runs these cases of strategies.py and writes their results into the folder RESULTS."""
    import ranks
    import strategies
    import strategy

    rank, size = start(backend)
    strategies.import_kinds()
    place = ranks.Place(backend, rank, size, os.environ["RESULTS"])
    results = {case.name: case.body(place) for case in strategy.CASES if case.name in STRATEGIES}
    torch.save(results, place.shared(f"{rank}.results"))
    right = large_layers_are_right(rank, size)
    dist.destroy_process_group()
    print(f"rank {rank} is {'right' if right else 'wrong'}", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(globals()[sys.argv[1]](sys.argv[2]))
