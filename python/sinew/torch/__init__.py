"""sinew as a backend of torch.distributed.

    torch.distributed.init_process_group("sinew")

works without an import of this module. Importing the module loads the extension, so that what is wrong is said at once.
"""

import os as _os
from pathlib import Path as _Path

try:
    import torch as _torch
except ModuleNotFoundError as _missing:
    if _missing.name != "torch":
        raise
    _torch = None
if getattr(_torch, "__file__", None) is None:  # any folder named torch imports, too, and has no file
    raise ModuleNotFoundError(
        "sinew.torch needs PyTorch, which this Python does not have: pip install 'sinew[torch]'", name="torch"
    )

from sinew import _libraries
from sinew._entry_points import register
from sinew.torch import build as _build

_libraries.load()
extension = _build.load_extension(_Path(_torch.__file__).parent)
register()

# DistributedDataParallel takes its buckets from the backend's memory only if this is "0". It asks NCCL, too, so this is
# left to the user where there are GPUs.
if _torch.cuda.device_count() == 0:
    _os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
