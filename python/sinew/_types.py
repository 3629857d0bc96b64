"""The types of the package's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, Union


class SupportsBuffer(Protocol):
    """An object with the buffer protocol: arrays of NumPy and of the module array, bytearray, memoryview."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class SupportsDLPack(Protocol):
    """An object with DLPack: tensors of PyTorch, JAX, CuPy, and arrays of NumPy."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


Array: TypeAlias = Union[SupportsBuffer, SupportsDLPack]


class SupportsItemsize(Protocol):
    """A dtype of NumPy or PyTorch."""

    @property
    def itemsize(self) -> int: ...


DType: TypeAlias = Union[str, type[Any], SupportsItemsize]

Op: TypeAlias = Union[
    Literal["sum", "prod", "product", "min", "max", "avg", "average", "premulsum", "band", "bor", "bxor"],
    Callable[[Any, Any], Any],
]
Determinism: TypeAlias = Literal["fast", "reproducible", "layout_invariant"]
Codec: TypeAlias = Literal["none", "bf16", "f16", "int8", "f8e4m3"]
