"""sinew: a communication layer for distributed training.

`sinew.torch` is its backend for PyTorch. This package needs no PyTorch.
"""

from importlib.metadata import version as _version

__version__ = _version("sinew")
