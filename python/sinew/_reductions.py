"""Reductions by functions of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sinew._errors import Unavailable


def applier(call: str) -> Callable[..., None]:
    """The function that the extension calls for each part of a reduction. Raises Unavailable without NumPy."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        raise Unavailable(f"{call}: op is a function, which needs NumPy: pip install numpy") from None
    return apply


def apply(function: Callable[[Any, Any], Any], dtype: str, out: memoryview, a: memoryview, b: memoryview) -> None:
    """Writes function(a, b) to `out`, which may be the memory of `a` or `b`."""
    import numpy

    kind = _dtype(dtype)
    left, right, target = (numpy.frombuffer(memory, kind) for memory in (a, b, out))
    result = numpy.asarray(function(left, right))
    if result.shape != target.shape:
        raise ValueError(
            f"the reduction returned an array of shape {result.shape} for arrays of shape {target.shape}, expected that shape"
        )
    numpy.copyto(target, result, casting="same_kind")


def _dtype(name: str) -> Any:
    import numpy

    if name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise Unavailable(f"op is a function and the dtype is {name}, which needs ml_dtypes: pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, name))
