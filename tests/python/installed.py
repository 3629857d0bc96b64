"""The installed package. ./run package runs these cases in environments into which the wheel was installed."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import sinew

FOLDER = Path(sinew.__file__).parent
# A rank of a script that never imports sinew. It prints where the extension and sinew's libraries were loaded from.
RANK = """
import sys
import torch.distributed as dist
store = dist.FileStore(sys.argv[1], 2)
dist.init_process_group(sys.argv[3], store=store, rank=int(sys.argv[2]), world_size=2)
dist.barrier()
dist.destroy_process_group()
for line in open("/proc/self/maps"):
    if "/_C_" in line or "/libsinew_" in line: print(line.split()[-1])
"""


def ranks(backend="sinew"):
    """Runs two ranks that start at once. Returns the files that each loaded, and what each printed as an error."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, f"{folder}/store", str(rank), backend],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            )
            for rank in range(2)
        ]
        said = [process.communicate(timeout=300) for process in started]
    codes = [process.returncode for process in started]
    if codes != [0, 0]:
        raise AssertionError(f"exit codes {codes}: {said}")
    return [set(out.split()) for out, _ in said], [error for _, error in said]


class Package(unittest.TestCase):
    def test_it_says_the_version_that_pip_shows(self):
        self.assertEqual(sinew.__version__, importlib.metadata.version("sinew"))

    def test_launcher_of_the_package_starts_ranks_that_use_the_extension(self):
        program = (
            "import array, sinew\n"
            "with sinew.World() as world:\n"
            "    data = array.array('d', [1.0 + world.rank])\n"
            "    world.communicator.all_reduce(data)\n"
            "    print(data[0], world.communicator.objects.all_gather(world.rank), sinew.library_version())\n"
        )
        for launcher in (["sinew.run"], ["sinew", "run"]):
            ran = subprocess.run(
                [sys.executable, "-m", *launcher, "-n", "2", sys.executable, "-c", program], capture_output=True, text=True, timeout=120
            )
            self.assertEqual(ran.stdout.count(f"3.0 [0, 1] {sinew.__version__}"), 2, ran.stdout + ran.stderr)

    def test_programs_of_the_package_run(self):
        for asked in (["sinew.info", "config"], ["sinew.bench", "--help"], ["sinew.run", "--help"]):
            ran = subprocess.run([sys.executable, "-m", *asked], capture_output=True, text=True, timeout=120)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertEqual(sorted(file.name for file in FOLDER.glob("bin/*")), ["sinew-bench", "sinew-info", "sinew-run"])

    def test_libraries_find_all_that_they_need_inside_the_package_or_in_every_debian(self):
        libraries = [*FOLDER.glob("lib/libsinew_*.so"), *FOLDER.glob("lib/sinew-modules/sinew_nccl.so")]
        self.assertIn("libsinew_collectives.so", [library.name for library in libraries])
        self.assertIn("sinew_nccl.so", [library.name for library in libraries])
        outside = set()
        for library in libraries:
            for name, file in re.findall(r"(\S+) => (\S+)", subprocess.check_output(["ldd", library], text=True)):
                if not Path(os.path.normpath(file)).is_relative_to(FOLDER):
                    outside.add(name)
        everywhere = r"lib(c|m|gcc_s|stdc\+\+|ssl|crypto|udev)\.so\.\d+"
        self.assertEqual([name for name in outside if not re.fullmatch(everywhere, name)], [])

    def test_each_library_of_others_comes_with_its_licence(self):
        others = {file.name for file in FOLDER.glob("lib/lib*.so*") if not file.name.startswith("libsinew_")}
        self.assertIn("libfmt.so.9", others)
        texts = {file.stem: file.read_text() for file in FOLDER.glob("licenses/*.txt")}
        self.assertEqual(others, set(texts))
        for name, text in texts.items():
            self.assertRegex(text, r"(?i)licen[cs]e", name)

    def test_its_backend_says_that_torch_is_missing(self):
        with self.assertRaisesRegex(ModuleNotFoundError, "needs PyTorch.*pip install 'sinew.torch.'"):
            import sinew.torch


class WithTorch(unittest.TestCase):
    def test_backend_is_found_without_an_import_and_loaded_from_the_package(self):
        for backend in ("sinew", "cpu:sinew,cuda:gloo"):
            files, _ = ranks(backend)
            self.assertEqual({str(Path(file).relative_to(FOLDER).parent) for file in set.union(*files)}, {"torch", "lib"})

    def test_import_of_the_backend_registers_it(self):
        import torch.distributed

        import sinew.torch

        self.assertEqual(sinew.torch.extension.version, sinew.__version__)
        self.assertTrue(torch.distributed.is_backend_available("sinew"))

    def test_extension_for_another_torch_is_compiled_once_for_two_ranks_and_kept(self):
        (carried,) = FOLDER.glob("torch/_C_*.so")
        hidden = carried.with_suffix(".hidden")
        carried.rename(hidden)
        self.addCleanup(hidden.rename, carried)
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")
            files, errors = ranks()
            extensions = {file for file in set.union(*files) if "/_C_" in file}
            self.assertEqual(len(extensions), 1)
            self.assertTrue(extensions.pop().startswith(cache))
            self.assertEqual(sum("compiling" in error for error in errors), 1, errors)
            _, errors = ranks()
            self.assertEqual(sum("compiling" in error for error in errors), 0, errors)
