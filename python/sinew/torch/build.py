"""Finds the extension for the torch that is installed, or compiles it.

An extension serves one version of torch. The package carries the extension for the version that it was built beside,
and the sources. For another version, the first use compiles the sources into the user's cache folder.

This file needs neither torch nor sinew. The build of the package runs it as a program, for the torch of the environment
that pip installs into.
"""

import argparse
import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

OLDEST = (2, 11)  # the first torch whose c10d::Backend has what csrc/ overrides


class ExtensionError(ImportError):
    """There is no extension for this torch. The text says what was asked, what was found, and what to do."""


@dataclass(frozen=True)
class Torch:
    """A torch, known by its files alone."""

    folder: Path
    version: str  # such as 2.15.0+cu132

    @property
    def module(self) -> str:
        """The extension's module. Its name has no patch number, because patches keep torch's binary interface."""
        return "_C_{}_{}".format(*self.version.split(".")[:2])


@dataclass(frozen=True)
class Package:
    """What an extension is compiled from."""

    sources: Path
    include: Path
    lib: Path

    @property
    def shared(self) -> Path:
        """The headers that these sources and those of sinew._core both include."""
        return self.sources.parents[1] / "csrc"

    @staticmethod
    def installed() -> "Package":
        here = Path(__file__).resolve().parent
        return Package(here / "csrc", here.parent / "include", here.parent / "lib")


def read_torch(folder: Path) -> Torch:
    """The torch in `folder`. Raises ExtensionError where sinew cannot use it."""
    stated = re.search(r"^__version__ = ['\"]((\d+)\.(\d+)[^'\"]*)", (folder / "version.py").read_text(), re.MULTILINE)
    if stated is None:
        raise ExtensionError(f"{folder / 'version.py'} states no version: expected a line such as __version__ = '2.15.0'")
    if (int(stated[2]), int(stated[3])) < OLDEST:
        raise ExtensionError(
            f"sinew needs torch {OLDEST[0]}.{OLDEST[1]} or later, but {folder} is torch {stated[1]}: "
            "pip install 'sinew[torch]'"
        )
    return Torch(folder, stated[1])


def find_torch() -> Path | None:
    """The folder of the torch in the environment of this Python; None: there is none. It is not imported.

    While pip builds a package, variables hide the environment from this process. They are ignored by the one that is asked.
    """
    ask = (
        "import sys; sys.path.remove('')\n"  # not the current folder
        "from importlib.util import find_spec; print(getattr(find_spec('torch'), 'origin', None) or '')"
    )
    asked = subprocess.run([sys.executable, "-E", "-c", ask], stdout=subprocess.PIPE, text=True, check=True)
    origin = asked.stdout.strip()
    return Path(origin).parent if origin else None


def compiler(torch: Torch) -> list[str]:
    """The command of the C++ compiler: CXX, else what is there. Raises ExtensionError if there is none."""
    asked = shlex.split(os.environ.get("CXX", ""))
    tried = asked[:1] or ["c++", "g++", "clang++"]
    for name in tried:
        if shutil.which(name):
            return asked or [name]
    raise ExtensionError(
        f"sinew has to compile its extension for torch {torch.version}, and found no C++ compiler "
        f"(tried: {', '.join(tried)}): apt-get install g++, or name one in CXX"
    )


def compile_extension(torch: Torch, package: Package, file: Path) -> None:
    """Compiles the extension. `file` appears complete or not at all, whoever ends this process meanwhile.

    Cost: about 25 s of one core. All sources are compiled as one, because torch's headers take most of that time.
    """
    command = compiler(torch)
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").exists():
        raise ExtensionError(
            f"sinew has to compile its extension for torch {torch.version}, and found no Python.h in {python}: "
            "apt-get install python3-dev"
        )
    with tempfile.TemporaryDirectory(prefix=f"{file.name}.", suffix=".part", dir=file.parent) as folder:
        merged, compiled, linked = (Path(folder) / name for name in ("all.cpp", "all.o", "linked.so"))
        merged.write_text("".join(f'#include "{source}"\n' for source in sorted(package.sources.glob("*.cpp"))))
        _run(
            torch,
            [*command, "-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
            + [f"-DTORCH_EXTENSION_NAME={torch.module}", "-D_GLIBCXX_USE_CXX11_ABI=1"]  # as all supported torches
            + ["-I", str(package.include), "-isystem", str(torch.folder / "include")]
            + ["-isystem", str(torch.folder / "include/torch/csrc/api/include"), "-isystem", str(python)]
            + ["-c", str(merged), "-o", str(compiled)],
        )
        link = [*command, "-shared", str(compiled), "-o", str(linked), "-Wl,--as-needed"]
        link += [str(library) for library in sorted(package.lib.glob("lib*.so*"))]
        # Of torch's libraries and sinew's the names alone are noted: both are loaded before the extension is.
        link += [f"-L{torch.folder / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10"]
        # By its file name, because a compiler whose folder has no libstdc++.so links libstdc++.a without a word. Streams of
        # that second copy end in SIGSEGV, as they use locales of torch's.
        _run(torch, [*link, "-l:libstdc++.so.6"])
        linked.chmod(0o755)
        os.replace(linked, file)


def _run(torch: Torch, command: list[str]) -> None:
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        raise ExtensionError(
            f"sinew could not compile its extension for torch {torch.version} in {torch.folder}; "
            f"{shlex.join(command)} ended with exit code {ran.returncode} and said:\n{ran.stdout}"
        )


def cache_folder() -> Path:
    """sinew/torch in the user's cache folder. Raises ExtensionError if it cannot be made, or if others can write there."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))  # a relative one means nothing, as its specification says
    folder = (named if named.is_absolute() else Path.home() / ".cache") / "sinew" / "torch"
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)  # also where a umask of 002 lets the user's group write
        about = folder.stat()
    except OSError as error:
        raise ExtensionError(
            f"sinew keeps the extension that it compiles in {folder}, which cannot be made ({error.strerror}): "
            "name a folder that can be written in XDG_CACHE_HOME"
        ) from None
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise ExtensionError(
            f"sinew loads code from {folder}, which user {about.st_uid} owns, with mode {about.st_mode & 0o7777:04o}; "
            f"expected that user {os.geteuid()} owns it and that nobody else can write it: chmod go-w, or remove it"
        )
    return folder


def cached_extension(torch: Torch, package: Package) -> Path:
    """The extension in the cache. It is compiled first if it is not there; of processes that start at once one does so.

    A process that ends while it compiles leaves a folder, which the next one removes, and no lock.
    """
    contents = hashlib.sha256(Path(__file__).read_bytes())
    for folder in (package.sources, package.shared, package.include):
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            contents.update(f"{file.relative_to(folder)}\0".encode())
            contents.update(file.read_bytes())
    folder = cache_folder()
    name = f"{torch.module}.{torch.version}.{contents.hexdigest()[:16]}{sysconfig.get_config_var('EXT_SUFFIX')}"
    file = folder / name
    if file.exists():
        return file
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            for left in folder.glob(f"{name}.*.part"):
                shutil.rmtree(left, ignore_errors=True)
            compiler(torch)  # if there is none, an error says so, and nothing is announced
            print(f"sinew: compiling the extension for torch {torch.version}, once, for half a minute", file=sys.stderr)
            compile_extension(torch, package, file)
    return file


def extension_file(folder: Path, package: Package) -> Path:
    """The extension for the torch in `folder`: the package's, else the cache's."""
    torch = read_torch(folder)
    carried = package.sources.parent / f"{torch.module}{sysconfig.get_config_var('EXT_SUFFIX')}"
    return carried if carried.exists() else cached_extension(torch, package)


def load_extension(folder: Path) -> ModuleType:
    """The extension for the torch in `folder`, which is imported already, as sinew's libraries are loaded."""
    file = extension_file(folder, Package.installed())
    spec = importlib.util.spec_from_file_location(f"{__package__}.{file.name.partition('.')[0]}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Compiles the extension that a package carries, if the environment has a torch that sinew can use."""
    arguments = argparse.ArgumentParser(description=main.__doc__)
    arguments.add_argument("--torch", default="AUTO", help="AUTO: this Python's; OFF: none; or the folder of a torch")
    arguments.add_argument("--prefix", type=Path, required=True, help="the folder with include/ and lib/ of sinew")
    asked = arguments.parse_args()
    folder = {"AUTO": find_torch, "OFF": lambda: None}.get(asked.torch, lambda: Path(asked.torch))()
    if folder is None:
        print("no extension is built: there is no torch; where there is one, the first use compiles it")
        return
    try:
        torch = read_torch(folder)
    except ExtensionError as error:
        print(f"no extension is built: {error}")
        return
    package = Package(Path(__file__).resolve().parent / "csrc", asked.prefix / "include", asked.prefix / "lib")
    file = asked.prefix / "torch" / f"{torch.module}{sysconfig.get_config_var('EXT_SUFFIX')}"
    file.parent.mkdir(exist_ok=True)
    try:
        compile_extension(torch, package, file)
    except ExtensionError as error:
        sys.exit(str(error))
    print(f"built the extension for torch {torch.version} in {folder}")


if __name__ == "__main__":
    main()
