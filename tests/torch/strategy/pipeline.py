"""Pipeline parallelism with four schedules, against the same model on one rank."""

import ranks
import torch
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.nn import functional as F

from . import case, generator

WIDTH, ROWS, MICRO_BATCHES = 16, 24, 8


def layer(index):
    torch.manual_seed(100 + index)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())


def data():
    made = generator(9)
    return torch.randn(ROWS, WIDTH, generator=made), torch.randn(ROWS, WIDTH, generator=made)


def alone(stages):
    """Gradients of each stage's parameters, computed without a pipeline."""
    layers = nn.Sequential(*[layer(index) for index in range(stages)])
    x, y = data()
    for part_x, part_y in zip(x.chunk(MICRO_BATCHES), y.chunk(MICRO_BATCHES)):
        (F.mse_loss(layers(part_x), part_y) / MICRO_BATCHES).backward()
    return [[p.grad for p in each.parameters()] for each in layers]


def one_stage(place, schedule_class):
    return piped(place, place.size, [place.rank], lambda stages, **more: schedule_class(stages[0], **more))


def piped(place, count, mine, make_schedule):
    layers = {index: layer(index) for index in mine}
    stages = [PipelineStage(layers[index], index, count, torch.device(ranks.DEVICE)) for index in mine]
    schedule = make_schedule(stages, n_microbatches=MICRO_BATCHES, loss_fn=F.mse_loss)
    x, y = data()
    losses, output = [], None
    first, last = 0 in mine, count - 1 in mine
    for _ in range(2):
        for each in layers.values():
            each.zero_grad()
        arguments = (x,) if first else ()
        output = schedule.step(*arguments, target=y, losses=losses) if last else schedule.step(*arguments)
    expected = alone(count)
    found = {index: [p.grad for p in layers[index].parameters()] for index in mine}
    for index in mine:
        for a, b in zip(expected[index], found[index]):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    return {
        "gradients": found,
        "losses": [loss.detach() for loss in losses],
        "output": output.detach() if last else None,
    }


@case(sums="none")
def pipeline_gpipe(place):
    return one_stage(place, ScheduleGPipe)


@case(sums="none")
def pipeline_1f1b(place):
    return one_stage(place, Schedule1F1B)


@case(sums="none")
def pipeline_interleaved_1f1b(place):
    return piped(place, 2 * place.size, [place.rank, place.rank + place.size], ScheduleInterleaved1F1B)


@case(sums="none")
def pipeline_interleaved_zero_bubble(place):
    return piped(place, 2 * place.size, [place.rank, place.rank + place.size], ScheduleInterleavedZeroBubble)


@case(sums="none")
def pipeline_zbv_zero_bubble(place):
    return piped(place, 2 * place.size, [place.rank, 2 * place.size - 1 - place.rank], ScheduleZBVZeroBubble)
