"""The operators torch.ops.sinew: results, arguments that they refuse, and torch.compile."""

import torch
import torch.distributed as dist

from . import check, in_ranks, raises, sum_of_ranks

EPSILON = 0.25


def group_name():
    return dist.group.WORLD.group_name


def arguments(place, rows, width, dtype):
    """Whole numbers, so that every order of sums gives the same. The residual and the weight are equal on all ranks."""
    elements = torch.arange(rows * width).reshape(rows, width)
    partial = (elements % 7 + place.rank).to(dtype)
    residual = (elements % 5 - 2).to(dtype)
    weight = (torch.arange(width) % 3 + 1).to(dtype)
    total = (place.size * (elements % 7) + sum_of_ranks(place)).to(dtype)
    return partial, residual, weight, total


def expected_of(residual, total, weight):
    added = residual + total
    exact = added.double()
    factor = (exact.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    return exact * factor * weight.double(), added


def close(place, what, found, expected):
    steps = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-6, torch.float64: 1e-13}
    near = torch.allclose(found.double(), expected, rtol=1.01 * steps[found.dtype], atol=1e-7)
    check(place, what, near, True)


def fused(*given):
    return torch.ops.sinew.all_reduce_add_rms_norm(*given, EPSILON, group_name())


@in_ranks()
def operator_all_reduce(place):
    place.start()
    given = torch.full((3, 2), float(place.rank + 1))
    found = torch.ops.sinew.all_reduce(given.t(), "sum", group_name())
    check(place, "sum", found, torch.full((2, 3), float(sum_of_ranks(place) + place.size)))
    check(place, "the input", given, torch.full((3, 2), float(place.rank + 1)))
    raises("an operator that is none", lambda: torch.ops.sinew.all_reduce(given, "mean", group_name()), '"mean"', "avg")


@in_ranks()
def operator_all_reduce_add_rms_norm(place):
    place.start()
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        for rows, width in ((1, 1), (3, 70), (0, 8), (300, 1024)):
            partial, residual, weight, total = arguments(place, rows, width, dtype)
            kept = partial.clone(), residual.clone()
            exact, added = expected_of(residual, total, weight)
            normed, new_residual = fused(partial, residual, weight)
            check(place, f"residual of {rows} x {width} {dtype}", new_residual, added)
            close(place, f"norm of {rows} x {width} {dtype}", normed, exact)
            check(place, "input", partial, kept[0])
            check(place, "old residual", residual, kept[1])
            torch.ops.sinew.all_reduce_add_rms_norm_(partial, residual, weight, EPSILON, group_name())
            check(place, "residual in place", residual, new_residual)
            check(place, "norm in place", partial, normed)


@in_ranks()
def operator_all_reduce_add_rms_norm_of_strided_tensors(place):
    place.start()
    partial, residual, weight, total = arguments(place, 6, 40, torch.float32)
    exact, added = expected_of(residual, total, weight)
    columns = [torch.stack((t, t), -1)[..., 0] for t in (partial, residual, weight)]
    normed, new_residual = fused(*columns)
    check(place, "residual", new_residual, added)
    close(place, "norm", normed, exact)
    torch.ops.sinew.all_reduce_add_rms_norm_(*columns, EPSILON, group_name())
    check(place, "residual in place", columns[1].contiguous(), added)
    check(place, "norm in place", columns[0].contiguous(), normed)
    three = fused(partial.view(2, 3, 40), residual.view(2, 3, 40), weight)
    check(place, "of three dimensions", three[0].view(6, 40), normed)


@in_ranks()
def operator_all_reduce_add_rms_norm_refuses(place):
    place.start()
    partial, residual, weight, _ = arguments(place, 4, 8, torch.float32)
    for what, given, words in (
        ("integers", (partial.int(), residual.int(), weight.int()), "input has dtype Int, expected Half"),
        ("another residual", (partial, residual[:3], weight), r"residual has sizes \[3, 8\].*\[4, 8\]"),
        ("another weight", (partial, residual, weight[:5]), r"weight has sizes \[5\].*\[4, 8\]"),
        ("a residual in f64", (partial, residual.double(), weight), "residual is Double.*expected Float"),
        ("no dimension", (partial[0, 0], residual[0, 0], weight), "no dimensions"),
    ):
        raises(what, lambda given=given: fused(*given), words)
    raises(
        "an epsilon below 0",
        lambda: torch.ops.sinew.all_reduce_add_rms_norm(partial, residual, weight, -1.0, group_name()),
        "eps is -1, expected 0 or more",
    )
    check(place, "afterwards", fused(partial, residual, weight)[1], expected_of(residual, arguments(place, 4, 8, torch.float32)[3], weight)[1])


@in_ranks(limit_s=120)
def operator_all_reduce_add_rms_norm_compiled(place):
    place.start()
    partial, residual, weight, total = arguments(place, 4, 16, torch.float32)
    exact, added = expected_of(residual, total, weight)

    def layer(x, carried):
        normed, carried = fused(x + 0, carried, weight)
        return normed * 1, carried

    def layer_in_place(x, carried):
        x, carried = x.clone(), carried.clone()
        torch.ops.sinew.all_reduce_add_rms_norm_(x, carried, weight, EPSILON, group_name())
        return x, carried

    for name, body in (("functional", layer), ("in place", layer_in_place)):
        compiled = torch.compile(body, backend="aot_eager", fullgraph=True)
        with torch.inference_mode():
            normed, new_residual = compiled(partial, residual)
        close(place, f"norm, {name}", normed, exact)
        check(place, f"residual, {name}", new_residual, added)
