"""Every dtype that PyTorch has: moved, reduced, or refused by name."""

import torch
import torch.distributed as dist

from . import check, in_ranks, raises, sum_of_ranks


def moved(place, dtype):
    """Every call that moves data, with a pattern of bytes that tells the rank."""
    size, rank = place.size, place.rank

    def pattern(of, count=6):
        width = torch.empty(0, dtype=dtype).element_size()
        return (torch.arange(count * width) % 50 + 3 * of).to(torch.uint8).view(dtype)

    def all_patterns():
        return torch.cat([pattern(peer).view(torch.uint8) for peer in range(size)]).view(dtype)

    def blank(count=6):
        return torch.zeros_like(pattern(0, count))

    value = pattern(rank)
    dist.broadcast(value, 1)
    check(place, f"broadcast {dtype}", value, pattern(1))
    outputs = [blank() for _ in range(size)]
    dist.all_gather(outputs, pattern(rank))
    for peer, output in enumerate(outputs):
        check(place, f"all_gather {dtype}", output, pattern(peer))
    flat = blank(6 * size)
    dist.all_gather_into_tensor(flat, pattern(rank))
    check(place, f"all_gather_into_tensor {dtype}", flat, all_patterns())
    outputs = [blank() for _ in range(size)]
    dist.gather(pattern(rank), outputs if rank == 0 else None)
    if rank == 0:
        for peer, output in enumerate(outputs):
            check(place, f"gather {dtype}", output, pattern(peer))
    value = blank()
    dist.scatter(value, [pattern(peer) for peer in range(size)] if rank == 0 else None)
    check(place, f"scatter {dtype}", value, pattern(rank))
    flat = blank(6 * size)
    dist.all_to_all_single(flat, torch.cat([pattern(rank).view(torch.uint8)] * size).view(dtype))
    check(place, f"all_to_all_single {dtype}", flat, all_patterns())
    if rank == 0:
        dist.send(pattern(9), 1)
    if rank == 1:
        value = blank()
        dist.recv(value, 0)
        check(place, f"recv {dtype}", value, pattern(9))


def dtype_case(name):
    def body(place):
        place.start()
        moved(place, getattr(torch, name))

    body.__name__ = f"dtype_{name}_is_moved"
    in_ranks()(body)


for each in (
    "int16",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "bool",
):
    dtype_case(each)


def summed_case(name):
    def body(place):
        place.start()
        dtype = getattr(torch, name)
        ranks = range(place.size)
        product = 1
        for rank in ranks:
            product *= rank + 1
        for operator, expected in (
            (dist.ReduceOp.SUM, sum_of_ranks(place) + place.size),
            (dist.ReduceOp.MAX, place.size),
            (dist.ReduceOp.MIN, 1),
            (dist.ReduceOp.PRODUCT, product),
        ):
            value = torch.full((9,), place.rank + 1, dtype=torch.float32).to(dtype)
            dist.all_reduce(value, operator)
            check(place, f"{operator} of {dtype}", value, torch.full((9,), expected, dtype=torch.float32).to(dtype))
        part = torch.zeros(2, dtype=torch.float32).to(dtype)
        dist.reduce_scatter_tensor(part, torch.full((2 * place.size,), 2.0).to(dtype))
        check(place, f"reduce_scatter of {dtype}", part, torch.full((2,), 2.0 * place.size).to(dtype))

    body.__name__ = f"dtype_{name}_is_summed"
    in_ranks()(body)


for each in ("int16", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"):
    summed_case(each)


@in_ranks()
def dtype_large_integers_are_exact(place):
    place.start()
    for dtype, large in (
        (torch.int64, 2**62 - 5),
        (torch.uint64, 2**63 - 5),
        (torch.int32, 2**30 - 5),
        (torch.int16, 2**14 - 5),
    ):
        values = [large - rank for rank in range(2)] + [1] * (place.size - 2)
        value = torch.tensor([values[place.rank]], dtype=dtype)
        dist.all_reduce(value)
        check(place, f"sum of {dtype}", value, torch.tensor([sum(values)], dtype=dtype))


@in_ranks()
def dtype_bool_operators(place):
    place.start()
    last = place.rank == place.size - 1
    odd = place.size % 2 == 1
    for operator, expected in (
        (dist.ReduceOp.SUM, [True, True, False]),
        (dist.ReduceOp.PRODUCT, [True, False, False]),
        (dist.ReduceOp.MAX, [True, True, False]),
        (dist.ReduceOp.MIN, [True, False, False]),
        (dist.ReduceOp.BAND, [True, False, False]),
        (dist.ReduceOp.BOR, [True, True, False]),
        (dist.ReduceOp.BXOR, [odd, True, False]),
    ):
        value = torch.tensor([True, last, False])
        dist.all_reduce(value, operator)
        check(place, f"{operator} of bool", value, torch.tensor(expected))


@in_ranks()
def dtype_complex(place):
    place.start()
    value = torch.full((3,), complex(place.rank, 1), dtype=torch.complex64)
    dist.all_reduce(value)
    check(place, "sum", value, torch.full((3,), complex(sum_of_ranks(place), place.size), dtype=torch.complex64))
    outputs = [torch.zeros(2, dtype=torch.complex128) for _ in range(place.size)]
    dist.gather(torch.full((2,), complex(0, place.rank), dtype=torch.complex128), outputs if place.rank == 0 else None)
    if place.rank == 0:
        for peer, output in enumerate(outputs):
            check(place, "gather", output, torch.full((2,), complex(0, peer), dtype=torch.complex128))


@in_ranks()
def dtype_refused_by_name_on_every_rank(place):
    """What has no meaning raises everywhere, says why, and leaves the group usable."""
    place.start()
    refused = [
        (torch.int32, dist.ReduceOp.AVG, "avg|average"),
        (torch.bool, dist.ReduceOp.AVG, "avg|average"),
        (torch.complex64, dist.ReduceOp.MAX, "max"),
        (torch.float32, dist.ReduceOp.BAND, "and|bit"),
        (torch.bfloat16, dist.ReduceOp.BXOR, "xor|bit"),
        (torch.float8_e4m3fnuz, dist.ReduceOp.SUM, "e4m3fnuz|scalar type"),
        (torch.float8_e8m0fnu, dist.ReduceOp.SUM, "e8m0fnu|scalar type"),
    ]
    for dtype, operator, name in refused:
        if place.control:
            dtype, operator = torch.float32, dist.ReduceOp.SUM
        value = torch.ones(4).to(dtype)
        raises(
            f"{operator} of {dtype}",
            lambda value=value, operator=operator: dist.all_reduce(value, operator),
            name,
            most_s=3,
        )
    value = torch.ones(4)
    dist.all_reduce(value)
    check(place, "afterwards", value, torch.full((4,), float(place.size)))


@in_ranks()
def average_and_scaled_sum(place):
    place.start()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        value = torch.full((5,), 12.0 * (place.rank + 1), dtype=dtype)
        dist.all_reduce(value, dist.ReduceOp.AVG)
        expected = 12.0 * (sum_of_ranks(place) + place.size) / place.size
        check(place, f"average of {dtype}", value, torch.full((5,), expected, dtype=dtype))
    value = torch.full((5,), float(place.rank + 1))
    dist.all_reduce(value, dist._make_nccl_premul_sum(0.5))
    check(place, "scaled sum", value, torch.full((5,), 0.5 * (sum_of_ranks(place) + place.size)))
