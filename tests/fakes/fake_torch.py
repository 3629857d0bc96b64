"""A torch of a few files, a sinew package without code, and a compiler that writes down when it was called."""

from pathlib import Path


def make_torch(site: Path, version: str, lists_backends: bool = True) -> Path:
    """A folder `torch` in `site` that states `version`. Imported, it keeps what is registered in `Backend.registered`.

    lists_backends: it looks at the entry points torch.distributed.backends, as 2.12 and later do
    """
    folder = site / "torch"
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "version.py").write_text(f"from typing import Optional\n\n__version__ = '{version}'\ndebug = False\n")
    (folder / "__init__.py").write_text("")
    (folder / "distributed.py").write_text(
        "def is_available(): return True\n"
        "class Backend:\n"
        "    registered = []\n"
        "    @classmethod\n"
        "    def register_backend(cls, name, create, extended_api, devices):\n"
        "        cls.registered.append((name, extended_api, devices))\n"
        + ("    _ensure_backend_registered = None\n" if lists_backends else "")
    )
    return folder


def make_package(folder: Path) -> Path:
    """A sinew as it is installed: csrc, torch/csrc, include, lib."""
    for name in ("csrc", "torch/csrc", "include/sinew/core", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "torch/csrc/module.cpp").write_text("int module;\n")
    (folder / "csrc/signal_pause.hpp").write_text("int pause;\n")
    (folder / "include/sinew/core/work.hpp").write_text("class Work;\n")
    return folder


def make_compiler(folder: Path, calls: Path, seconds: float = 0, slow: str = "-c", fails: bool = False) -> Path:
    """A program c++ that adds a line to `calls` and writes half of its output.

    Calls with the option `slow` then wait for `seconds`. Then it writes the other half, or fails.
    """
    folder.mkdir(exist_ok=True)
    file = folder / "c++"
    file.write_text(
        "#!/bin/sh\n"
        f'case " $* " in *" {slow} "*) wait={seconds} ;; *) wait=0 ;; esac\n'
        'all="$*"\n'
        'while [ "$1" != -o ]; do shift; done\n'
        'printf com >"$2"\n'
        f'echo "$all" >>"{calls}"\n'
        "sleep $wait\n"
        + ("echo 'module.cpp:1: error: what a fake finds' >&2; exit 3\n" if fails else "")
        + 'echo piled >>"$2"\n'
    )
    file.chmod(0o755)
    return file
