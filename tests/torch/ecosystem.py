#!/usr/bin/env python3
"""Trains a small model through packages that people use on top of PyTorch, over one backend and over another.

    ecosystem.py --backend sinew --world-size 2
    ecosystem.py --backend sinew --world-size 4 --only 'fabric|deepspeed'
    ecosystem.py --list

Every case runs in fresh ranks, under the reference first. Results are compared on every rank: bit by bit with two
ranks, with more ranks relative to the largest element, because the order of sums is the backend's own. Where a package
is not installed or cannot run without a GPU, the case is skipped with the reason. Exit: 0 if nothing failed, else 1.
"""

import contextlib
import importlib
import os
import re
import sys
import time

import ranks
import strategies
import torch
import torch.distributed as dist
from strategy import TOLERANCE
from strategy.models import Layers, batch, seeded, sgd, state
from torch.nn import functional as F

CASES = []
os.environ.setdefault("DS_ACCELERATOR", "cpu")  # DeepSpeed reads it when it is imported


def case(package):
    """Adds a case, which needs `package` and returns what is compared."""

    def add(body):
        CASES.append((body, package))
        return body

    return add


def missing(package):
    """Why `package` cannot be imported; empty if it can be. It stays imported, so that ranks need not import it."""
    try:
        importlib.import_module(package)
    except Exception as error:  # whatever a package does while it is imported
        return f"import {package}: {type(error).__name__}: {error}".splitlines()[0]
    return ""


@case("accelerate")
def accelerate_ddp(place):
    """Accelerate has a fixed list of backends for CPU, and takes the default group that is there."""
    from accelerate import Accelerator

    dist.init_process_group(place.backend)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    assert accelerator.num_processes == place.size and accelerator.process_index == place.rank
    model = seeded(Layers)
    model, optimizer = accelerator.prepare(model, sgd(model))
    losses = []
    for step in range(6):
        with accelerator.accumulate(model):
            x, y = batch(place.rank, step)
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    objects = accelerator.gather_for_metrics([{"rank": place.rank}], use_gather_object=True)
    padded = accelerator.pad_across_processes(torch.ones(place.rank + 1))
    return {
        "losses": losses,
        "gathered": accelerator.gather(losses[-1]),
        "mean": accelerator.reduce(losses[-1], "mean"),
        "padded": accelerator.gather(padded),
        "objects": objects,
        **state(accelerator.unwrap_model(model)),
    }


def fabric(place, strategy_name, **options):
    """Lightning Fabric in ranks that were started as torchrun starts them."""
    import lightning_fabric
    from lightning_fabric import strategies as kinds
    from lightning_fabric.plugins.environments import TorchElasticEnvironment

    made = lightning_fabric.Fabric(
        accelerator="cpu",
        devices=place.size,
        strategy=getattr(kinds, strategy_name)(process_group_backend=place.backend, **options),
        plugins=[TorchElasticEnvironment()],
    )
    made.launch()
    assert made.world_size == place.size and made.global_rank == place.rank
    return made


def train_with_fabric(place, made, model, optimizer):
    losses = []
    for step in range(4):
        x, y = batch(place.rank, step)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        made.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": losses, "gathered": made.all_gather(losses[-1]), "mean": made.all_reduce(losses[-1].clone())}


@case("lightning_fabric")
def fabric_ddp(place):
    made = fabric(place, "DDPStrategy")
    model = seeded(Layers)
    model, optimizer = made.setup(model, sgd(model))
    found = train_with_fabric(place, made, model, optimizer)
    return {**found, **state(model.module)}


@case("lightning_fabric")
def fabric_fsdp2(place):
    """The strategy that takes a function which shards the model."""
    from torch.distributed.fsdp import fully_shard

    def shard(model, mesh):
        for layer in (model.first, model.middle, model.last):
            fully_shard(layer, mesh=mesh["data_parallel"])
        return fully_shard(model, mesh=mesh["data_parallel"])

    options = {"parallelize_fn": shard, "data_parallel_size": place.size, "tensor_parallel_size": 1}
    made = fabric(place, "ModelParallelStrategy", **options)
    model = made.setup_module(seeded(Layers))
    optimizer = made.setup_optimizers(sgd(model))
    found = train_with_fabric(place, made, model, optimizer)
    return {**found, **state(model)}


def deepspeed_zero(place, stage):
    import deepspeed

    deepspeed.init_distributed(dist_backend=place.backend, auto_mpi_discovery=False, verbose=False)
    assert dist.get_backend() == place.backend
    model = seeded(Layers)
    configuration = {
        "train_micro_batch_size_per_gpu": 6,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=sgd(model), config=configuration)
    losses = []
    for step in range(4):
        x, y = batch(place.rank, step)
        loss = F.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=stage == 3):
        weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    return {"losses": losses, "norm": float(engine.get_global_grad_norm()), "weights": weights}


@case("deepspeed")
def deepspeed_zero_1(place):
    return deepspeed_zero(place, 1)


@case("deepspeed")
def deepspeed_zero_2(place):
    return deepspeed_zero(place, 2)


@case("deepspeed")
def deepspeed_zero_3(place):
    return deepspeed_zero(place, 3)


@contextlib.contextmanager
def megatron(place, tensor_parallel):
    """Megatron-Core's groups. It allocates on the current GPU by its number; here the CPU takes its place."""
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel.random import initialize_rng_tracker

    initialize_rng_tracker(inference_rng_tracker=True)  # the one that needs no state of a GPU
    dist.init_process_group(place.backend)
    parallel_state.initialize_model_parallel(tensor_parallel, create_gloo_process_groups=False)
    current_device, torch.cuda.current_device = torch.cuda.current_device, lambda: torch.device("cpu")
    try:
        yield
    finally:
        torch.cuda.current_device = current_device
        parallel_state.destroy_model_parallel()


@case("megatron.core")
def megatron_gpt(place):
    """A GPT whose layers are split over all ranks. Sequence parallelism needs a norm that runs on GPUs only."""
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    with megatron(place, place.size):
        torch.manual_seed(1)
        configuration = TransformerConfig(
            num_layers=2,
            hidden_size=12 * place.size,
            num_attention_heads=place.size,
            tensor_model_parallel_size=place.size,
            use_cpu_initialization=True,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            gradient_accumulation_fusion=False,
            bias_activation_fusion=False,
            bias_dropout_fusion=False,
            masked_softmax_fusion=False,
            persist_layer_norm=False,
        )
        length, vocabulary = 4 * place.size, 16 * place.size
        model = GPTModel(configuration, get_gpt_layer_local_spec(), vocabulary, length, parallel_output=True)
        made = torch.Generator().manual_seed(7)
        tokens = torch.randint(0, vocabulary, (3, length + 1), generator=made)
        mask = torch.ones(1, 1, length, length).triu(1).bool()
        optimizer = sgd(model)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(tokens[:, :-1], torch.arange(length).expand(3, -1), mask, labels=tokens[:, 1:]).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        assert losses[-1] < losses[0]
        return {"losses": losses, "gradients": [parameter.grad for parameter in model.parameters()]}


@case("torchtitan.models.llama3")
def torchtitan_llama3(place):
    """Llama 3 under FSDP2, and under tensor and sequence parallel, too, where the number of ranks is even. The trainer
    takes its device to be a GPU, and so does its attention; the attention of its Flux model runs here."""
    from torch.distributed.fsdp import FSDPModule
    from torchtitan.components.loss import cross_entropy_loss
    from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
    from torchtitan.distributed import ParallelDims, parallel_dims, utils
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3 import llama3_configs, parallelize_llama
    from torchtitan.models.llama3.sharding import set_llama3_sharding_config

    dist.init_process_group(place.backend)
    parallel_dims.device_type = "cpu"
    parallelism = ParallelismConfig(
        tensor_parallel_degree=2 if place.size % 2 == 0 else 1, spmd_backend="partial_dtensor"
    )
    utils.set_spmd_backend(parallelism.spmd_backend)
    configuration = llama3_configs["debugmodel"](attn_backend="flex")
    configuration.layers = configuration.layers[:2]
    for layer in configuration.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    set_llama3_sharding_config(configuration, enable_sp=True)
    with torch.device("meta"):
        model = configuration.build()
    model = parallelize_llama(
        model,
        parallel_dims=ParallelDims.from_config(parallelism, place.size),
        training=TrainingConfig(mixed_precision_param="float32"),
        parallelism=parallelism,
        compile_config=CompileConfig(),
        ac_config=None,
        dump_folder=place.folder,
    )
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)  # Gloo has no PREMUL_SUM
    model.to_empty(device="cpu")
    torch.manual_seed(1)
    with torch.no_grad():
        model.init_weights(buffer_device=torch.device("cpu"))
    made = torch.Generator().manual_seed(place.rank // parallelism.tensor_parallel_degree)
    tokens = torch.randint(0, configuration.vocab_size, (2, 17), generator=made)
    optimizer = sgd(model)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        output = model(tokens[:, :-1], torch.arange(16).expand(2, -1))
        loss = cross_entropy_loss(output, tokens[:, 1:]) / 32
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    assert losses[-1] < losses[0]
    return {"losses": losses, **state(model)}


def in_rank(body, port):
    def start(place):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        result = body(place)
        dist.destroy_process_group()
        return result

    return start


def run_case(body, given):
    """(outcome, reason)"""
    results = []

    def run(backend):
        return ranks.run(in_rank(body, ranks.free_port()), backend, given.world_size, given.limit)

    for role, backend in (("reference", given.reference), ("tested", given.backend)):
        endings = run(backend) if role == "tested" else ranks.run_reference(lambda: run(given.reference))
        trouble = ranks.first_trouble(endings)
        if trouble:
            if given.verbose:
                for ending in endings:
                    print(ending.output + ending.error)
            return "failed", f"under {backend}, {trouble}"
        results.append([ending.result for ending in endings])
    return strategies.compare(*results, 0.0 if given.world_size == 2 else TOLERANCE["f32"])


def main():
    arguments = ranks.against_reference(__doc__, 300)
    given = arguments.parse_args()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for body, package in CASES:
        name = body.__name__
        if not re.search(given.only, name):
            continue
        if given.list:
            print(f"{name:30} {package}")
            continue
        started = time.monotonic()
        reason = missing(package)
        outcome, reason = ("skipped", reason) if reason else run_case(body, given)
        counts[outcome] += 1
        took = time.monotonic() - started
        print(f"{outcome:8}{took:6.1f} s  {name}" + (f": {reason[:300]}" if reason else ""), flush=True)
    if not given.list:
        print(
            f"backend {given.backend} against {given.reference}, {given.world_size} ranks: "
            f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
        )
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
