"""What PyTorch calls to find the backend "sinew" in a program that does not import sinew.

Both functions run in programs that may never use sinew. They do not load the extension: the first process group does.
"""


def register() -> None:
    """Registers the backend. PyTorch calls this where a program names "sinew".

    It is the entry point of torch.distributed.backends.
    """
    import torch.distributed

    # The devices say what sinew can do. gloo and nccl stay PyTorch's choice in programs that name no backend.
    torch.distributed.Backend.register_backend("sinew", _create, extended_api=True, devices=["cpu", "cuda"])


def autoload() -> None:
    """Registers the backend where PyTorch does not look at torch.distributed.backends, as in 2.11.

    PyTorch calls this at the end of `import torch`. It is the entry point of torch.backends.
    """
    import torch.distributed

    if torch.distributed.is_available() and not hasattr(torch.distributed.Backend, "_ensure_backend_registered"):
        register()


def _create(options, group_options):
    from sinew.torch import extension

    return extension.create(options, group_options, _chosen_device())


def _chosen_device() -> int:
    """The CUDA device that the program has chosen by torch.cuda.set_device.

    -1 where it has chosen none, or the first, which PyTorch does not tell apart: then it is the rank's place among the
    ranks of its host, as launchers count them.
    """
    import torch

    index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    return index if index > 0 else -1
