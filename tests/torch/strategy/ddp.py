"""DistributedDataParallel: its modes, its communication hooks, ZeroRedundancyOptimizer and GradScaler."""

import sys
import threading

import ranks
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from . import case
from .models import HIDDEN, INPUTS, OUTPUTS, Layers, batch, seeded, sgd, state, train


def trained(place, model=None, steps=4, **options):
    model = DDP(model or seeded(Layers), **options)
    return {"losses": train(model, place.rank, steps), **state(model)}


@case(sums="f32")
def ddp_plain(place):
    return trained(place)


@case(sums="f32")
def ddp_gradient_as_bucket_view(place):
    return trained(place, gradient_as_bucket_view=True)


@case(sums="f32")
def ddp_static_graph(place):
    return trained(place, static_graph=True)


@case(sums="f32")
def ddp_small_buckets(place):
    return trained(place, bucket_cap_mb=0.001)


class Branches(nn.Module):
    """Each call uses one of two branches, so the other's parameters have no gradient."""

    def __init__(self):
        super().__init__()
        self.left, self.right = Layers(), Layers()

    def forward(self, x, which):
        return (self.right if which else self.left)(x)


@case(sums="f32")
def ddp_find_unused_parameters(place):
    model = DDP(seeded(Branches), find_unused_parameters=True)
    steps = iter(range(4))
    losses = train(
        model, place.rank, 4, loss_of=lambda m, x, y: F.cross_entropy(m(x, (next(steps) + place.rank) % 2), y)
    )
    return {"losses": losses, **state(model)}


@case(sums="f32")
def ddp_no_sync(place):
    model = DDP(seeded(Layers))
    optimizer = sgd(model)
    for step in range(3):
        optimizer.zero_grad()
        with model.no_sync():
            for part in range(2):
                x, y = batch(place.rank, 10 * step + part)
                F.cross_entropy(model(x), y).backward()
        x, y = batch(place.rank, 10 * step + 2)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return state(model)


@case(sums="f32")
def ddp_join_uneven_inputs(place):
    model = DDP(seeded(Layers))
    optimizer = sgd(model)
    done = 0
    with Join([model]):
        for step in range(2 + 2 * place.rank):
            x, y = batch(place.rank, step)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            done += 1
    assert done == 2 + 2 * place.rank
    return state(model)


@case(sums="f32")
def ddp_batch_norm_buffers(place):
    # The first layer has no bias: its gradient would be zero but for rounding, as BatchNorm subtracts the mean.
    first = nn.Linear(INPUTS, HIDDEN, bias=False)
    model = nn.Sequential(first, nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUTPUTS))
    torch.manual_seed(1)
    for layer in (model[0], model[3]):
        layer.reset_parameters()
    return trained(place, model)


@case(sums="f32")
def ddp_two_models_on_two_groups(place):
    groups = [dist.new_group(), dist.new_group(list(reversed(range(place.size))))]
    models = [DDP(seeded(Layers), process_group=group, bucket_cap_mb=0.001) for group in groups]
    optimizers = [sgd(model) for model in models]
    for step in range(3):
        x, y = batch(place.rank, step)
        for optimizer in optimizers:
            optimizer.zero_grad()
        (F.cross_entropy(models[0](x), y) + F.cross_entropy(models[1](-x), y)).backward()
        for optimizer in optimizers:
            optimizer.step()
    return {"one": state(models[0]), "two": state(models[1])}


def with_hook(place, hook, hook_state=None, steps=4, model=None, **options):
    model = DDP(model or seeded(Layers), **options)
    model.register_comm_hook(hook_state, hook)
    return {"losses": train(model, place.rank, steps), **state(model)}


@case(sums="f32")
def hook_all_reduce(place):
    return with_hook(place, default_hooks.allreduce_hook)


@case(sums="f16")
def hook_fp16(place):
    return with_hook(place, default_hooks.fp16_compress_hook)


@case(sums="bf16")
def hook_bf16(place):
    return with_hook(place, default_hooks.bf16_compress_hook)


def power_state(group=None):
    return powerSGD_hook.PowerSGDState(
        group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5
    )


@case(sums="f32")
def hook_power_sgd(place):
    return with_hook(place, powerSGD_hook.powerSGD_hook, power_state(), steps=5)


class Double(nn.Module):
    def forward(self, x):
        return x.double()


def ten_layers():
    """In f64: what the order of sums leaves grows in PowerSGD's orthogonalization, in f32 beyond 1e-6."""
    middle = [nn.Linear(HIDDEN, HIDDEN) for _ in range(8)]
    return nn.Sequential(Double(), nn.Linear(INPUTS, HIDDEN), *middle, nn.Linear(HIDDEN, OUTPUTS)).double()


def gloo_of_four_threads(store, rank, size, timeout):
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_default_device()]
    options._timeout = timeout
    options._threads = 4
    return dist.ProcessGroupGloo(store, rank, size, options)


dist.Backend.register_backend("gloo_of_four_threads", gloo_of_four_threads, devices=["cpu"])


def a_group_each(place, buckets=16):
    """Continuations of different buckets run in any order, and each starts calls. On one group the ranks would start
    them in different orders. So each bucket has a group of its own. Gloo gives each group two threads, which is one too
    few for a chain three deep, so the reference gets a Gloo that has four."""
    backend = "gloo_of_four_threads" if place.backend == "gloo" else None
    return [dist.new_group(backend=backend) for _ in range(buckets)]


def power_sgd_of_each_bucket(groups, seen):
    def hook(hook_state, bucket):
        seen.add(bucket.index())
        hook_state.process_group = groups[bucket.index()]
        return powerSGD_hook.powerSGD_hook(hook_state, bucket)

    return hook


@case(sums="f32")
def hook_power_sgd_eight_buckets(place):
    """Each bucket's hook starts calls and waits for them inside `then`, eight buckets at once."""
    seen = set()
    hook = power_sgd_of_each_bucket(a_group_each(place), seen)
    found = with_hook(place, hook, power_state(), 5, seeded(ten_layers), bucket_cap_mb=0.004)
    assert len(seen) >= 8, f"only {len(seen)} buckets"
    return found


def chain(groups, depth):
    """A hook whose continuation starts a call and waits for it, `depth` times one inside the other."""

    def again(tensor, group, left):
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()

        def go_on(done):
            value = done.value()[0] / dist.get_world_size(group)
            return again(value, group, left - 1).wait() if left > 1 else value

        return future.then(go_on)

    return lambda _, bucket: again(bucket.buffer(), groups[bucket.index()], depth)


@case(sums="f32")
def hook_chain_three_deep(place):
    hook = chain(a_group_each(place), 3)
    return with_hook(place, hook, steps=3, model=seeded(ten_layers), bucket_cap_mb=0.004)


@case(sums="f32")
def hook_chains_of_two_models(place):
    models = [DDP(seeded(ten_layers), process_group=dist.new_group(), bucket_cap_mb=0.004) for _ in range(2)]
    for model in models:
        model.register_comm_hook(None, chain(a_group_each(place), 3))
    for step in range(3):
        x, y = batch(place.rank, step)
        (F.cross_entropy(models[0](x), y) + F.cross_entropy(models[1](-x), y)).backward()
    return {"one": state(models[0]), "two": state(models[1])}


@case(sums="f32")
def hook_power_sgd_while_main_thread_holds_the_lock(place):
    """Another thread trains while the main thread computes in Python and gives its lock away every 5 ms only."""
    found = {}
    hook = power_sgd_of_each_bucket(a_group_each(place), set())
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)

    def work():
        ranks.use_device(place.rank)
        found.update(with_hook(place, hook, power_state(), 3, seeded(ten_layers), bucket_cap_mb=0.004))

    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        sum(range(1000))
    sys.setswitchinterval(before)
    assert found, "the thread that trains has failed"
    return found


@case(sums="f32")
def zero_redundancy_optimizer(place):
    model = DDP(seeded(Layers))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
    losses = train(model, place.rank, 4, optimizer)
    optimizer.consolidate_state_dict(to=0)
    whole = optimizer.state_dict() if place.rank == 0 else {}
    return {"losses": losses, "optimizer": whole.get("state"), **state(model)}


@case(sums="f32")
def zero_redundancy_optimizer_with_join(place):
    model = DDP(seeded(Layers))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05)
    with Join([model, optimizer]):
        for step in range(2 + place.rank):
            x, y = batch(place.rank, step)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    return state(model)


@case(sums="f32")
def grad_scaler(place):
    """One rank overflows in step 1: every rank must leave that step out and halve its scale."""
    model = DDP(seeded(Layers))
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler(ranks.DEVICE, init_scale=1024.0, growth_interval=2)
    scales = []
    for step in range(5):
        x, y = batch(place.rank, step)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if step == 1 and place.rank == place.size - 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales[1] == 512.0, scales
    return {"scales": scales, **{k: v for k, v in state(model).items() if not k.endswith("grad")}}
