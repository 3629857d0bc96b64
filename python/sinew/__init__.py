"""sinew: a communication layer for distributed training.

`sinew.torch` is its backend for PyTorch. This package needs no PyTorch.
"""


def __getattr__(name: str) -> str:
    if name == "__version__":  # looked up when it is asked for, because that takes longer than all else here
        from importlib.metadata import version

        return version("sinew")
    raise AttributeError(f"module 'sinew' has no attribute '{name}'")
