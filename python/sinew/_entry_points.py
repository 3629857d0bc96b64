"""What PyTorch calls to find the backend "sinew" in a program that does not import sinew.

Both functions run in programs that may never use sinew. They do not load the extension: the first process group does.
"""


def register() -> None:
    """Registers the backend. PyTorch calls this where a program names "sinew".

    It is the entry point of torch.distributed.backends.
    """
    import torch.distributed

    # The devices say what sinew can do. gloo stays PyTorch's choice in programs that name no backend.
    torch.distributed.Backend.register_backend("sinew", _create, extended_api=True, devices=["cpu"])


def autoload() -> None:
    """Registers the backend where PyTorch does not look at torch.distributed.backends, as in 2.11.

    PyTorch calls this at the end of `import torch`. It is the entry point of torch.backends.
    """
    import torch.distributed

    if torch.distributed.is_available() and not hasattr(torch.distributed.Backend, "_ensure_backend_registered"):
        register()


def _create(options, group_options):
    from sinew.torch import extension

    return extension.create(options, group_options)
