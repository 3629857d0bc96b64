"""Which extension is taken, when one is compiled, and what is said when there is none. No torch is needed."""

import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import build
from fakes.fake_torch import make_compiler, make_package, make_torch

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
# What a rank does: it asks for the extension of the torch and the package that it is given.
RANK = """
import sys, build
from pathlib import Path
sinew = Path(sys.argv[2])
package = build.Package(sinew / "torch/csrc", sinew / "include", sinew / "lib")
print(build.extension_file(Path(sys.argv[1]), package))
"""


class BuildTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.calls = self.folder / "calls"
        self.cache = self.folder / "cache/sinew/torch"
        self.installed = make_package(self.folder / "sinew")
        self.package = build.Package(self.installed / "torch/csrc", self.installed / "include", self.installed / "lib")
        self.headers = self.folder / "python"
        self.headers.mkdir()
        (self.headers / "Python.h").write_text("")
        changed = {"XDG_CACHE_HOME": str(self.folder / "cache"), "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin"}
        for patch in (
            mock.patch.dict(os.environ, changed),
            mock.patch.object(build.sysconfig, "get_path", return_value=str(self.headers)),
            mock.patch.object(build.sys, "stderr"),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        os.environ.pop("CXX", None)

    def compiler(self, **how):
        return make_compiler(self.folder / "bin", self.calls, **how)

    def torch(self, version="2.14.0+cpu"):
        return make_torch(self.folder / f"site-{version}", version)

    def compilations(self):
        """How many sources were compiled; links are not counted."""
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return len([call for call in calls if " -c " in call])

    def find(self, torch):
        return build.extension_file(torch, self.package)

    def refusal(self, torch):
        with self.assertRaises(build.ExtensionError) as refused:
            self.find(torch)
        return str(refused.exception)

    def start_rank(self, torch):
        environment = {**os.environ, "CXX": str(self.folder / "bin/c++")}
        return subprocess.Popen(
            [sys.executable, "-c", RANK, torch, self.installed],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )

    def test_carried_extension_is_taken_for_every_patch_of_its_version(self):
        carried = self.installed / f"torch/_C_2_14{SUFFIX}"
        carried.write_text("")
        self.assertEqual(self.find(self.torch("2.14.0+cpu")), carried)
        self.assertEqual(self.find(self.torch("2.14.3")), carried)

    def test_other_version_is_compiled_once(self):
        self.compiler()
        (self.installed / f"torch/_C_2_14{SUFFIX}").write_text("")
        torch = self.torch("2.13.0")
        file = self.find(torch)
        self.assertEqual((file.parent, file.read_text()), (self.cache, "compiled\n"))
        self.assertTrue(file.name.startswith("_C_2_13.2.13.0.") and file.name.endswith(SUFFIX), file.name)
        self.assertEqual(self.find(torch), file)
        self.assertEqual(self.compilations(), 1)

    def test_every_version_has_a_file_of_its_own(self):
        self.compiler()
        files = {self.find(self.torch(version)) for version in ("2.13.0+cpu", "2.13.0+cu132", "2.13.1", "2.16.0.dev1")}
        self.assertEqual(len(files), 4)
        self.assertEqual(self.compilations(), 4)

    def test_changed_source_or_header_is_compiled_anew(self):
        self.compiler()
        torch = self.torch()
        files = [self.find(torch)]
        for changed in ("torch/csrc/module.cpp", "csrc/signal_pause.hpp", "include/sinew/core/work.hpp"):
            (self.installed / changed).write_text("// changed\n")
            files.append(self.find(torch))
        self.assertEqual(len(set(files)), 4)
        self.assertEqual(self.compilations(), 4)

    def test_compiler_is_told_where_torch_and_sinew_are(self):
        self.compiler()
        (self.package.lib / "libsinew_core.so").write_text("")
        torch = self.torch("2.12.1")
        self.find(torch)
        compiled, linked = self.calls.read_text().splitlines()
        folders = f"-I {self.package.include} -isystem {torch}/include"
        for word in ("-std=c++20", "-DTORCH_EXTENSION_NAME=_C_2_12", folders):
            self.assertIn(f" {word} ", f" {compiled} ")
        for word in (f"-L{torch}/lib", "-ltorch_python", str(self.package.lib / "libsinew_core.so")):
            self.assertIn(f" {word} ", f" {linked} ")

    def test_old_torch_is_refused(self):
        said = self.refusal(self.torch("2.10.2+cu128"))
        for part in ("needs torch 2.11 or later", "is torch 2.10.2+cu128", "pip install"):
            self.assertIn(part, said)
        self.assertNotIn("\n", said)

    def test_folder_that_states_no_version_is_refused(self):
        torch = self.torch()
        (torch / "version.py").write_text("debug = False\n")
        self.assertIn("states no version", self.refusal(torch))

    def test_missing_compiler_is_said_in_one_sentence(self):
        os.environ["PATH"] = str(self.folder / "bin")
        said = self.refusal(self.torch("2.14.0"))
        for part in ("torch 2.14.0", "no C++ compiler", "c++, g++, clang++", "apt-get install g++"):
            self.assertIn(part, said)
        self.assertNotIn("\n", said)

    def test_compiler_that_CXX_names_is_not_replaced_by_another(self):
        self.compiler()
        os.environ["CXX"] = "no-such-compiler -O0"
        self.assertIn("(tried: no-such-compiler)", self.refusal(self.torch()))
        self.assertEqual(self.compilations(), 0)

    def test_missing_headers_of_python_are_said_in_one_sentence(self):
        self.compiler()
        (self.headers / "Python.h").unlink()
        said = self.refusal(self.torch())
        for part in (f"no Python.h in {self.headers}", "apt-get install python3-dev"):
            self.assertIn(part, said)
        self.assertEqual(self.compilations(), 0)

    def test_failed_compilation_says_what_the_compiler_said_and_leaves_nothing(self):
        self.compiler(fails=True)
        said = self.refusal(self.torch())
        for part in ("torch 2.14.0+cpu", "exit code 3", "error: what a fake finds"):
            self.assertIn(part, said)
        self.assertEqual([file.suffix for file in self.cache.iterdir()], [".lock"])

    def test_ranks_that_start_at_once_compile_once(self):
        self.compiler(seconds=0.5)
        torch = self.torch()
        ranks = [self.start_rank(torch) for _ in range(3)]
        said = [rank.communicate() for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0], said)
        self.assertEqual(len({file for file, _ in said}), 1)
        self.assertEqual(self.compilations(), 1)
        self.assertEqual(sorted("compiling" in error for _, error in said), [False, False, True])

    def test_rank_killed_while_it_compiles_leaves_no_half_file(self):
        self.compiler(seconds=60, slow="-shared")
        torch = self.torch()
        killed = self.start_rank(torch)
        while not self.calls.exists() or "-shared" not in self.calls.read_text():
            time.sleep(0.01)
        self.addCleanup(os.killpg, killed.pid, signal.SIGKILL)  # its compiler goes on without it
        killed.kill()
        killed.wait()
        killed.stdout.close()
        killed.stderr.close()
        left = [file for file in self.cache.iterdir() if file.suffix == ".part"]
        self.assertEqual(len(left), 1)
        self.assertEqual(list(self.cache.glob(f"*{SUFFIX}")), [])

        (self.folder / "bin/c++").unlink()  # not written over: the shell of the compiler that goes on still reads it
        self.compiler()
        self.assertEqual(self.find(torch).read_text(), "compiled\n")
        self.assertFalse(left[0].exists())

    def test_cache_that_others_can_write_is_refused(self):
        self.compiler()
        self.cache.mkdir(parents=True)
        self.cache.chmod(0o777)
        said = self.refusal(self.torch())
        for part in (str(self.cache), "mode 0777", "chmod go-w"):
            self.assertIn(part, said)
        self.assertEqual(self.compilations(), 0)

    def test_group_cannot_write_to_the_cache_whatever_the_umask(self):
        self.compiler()
        self.addCleanup(os.umask, os.umask(0o002))
        file = build.extension_file(self.torch(), self.package)
        self.assertEqual([f"{place.stat().st_mode & 0o7777:o}" for place in (self.cache, file)], ["755", "755"])

    def test_cache_at_a_relative_path_is_in_the_home_folder_instead(self):
        self.compiler()
        os.environ.update(XDG_CACHE_HOME="cache", HOME=str(self.folder / "home"))
        file = build.extension_file(self.torch(), self.package)
        self.assertEqual(file.parent, self.folder / "home/.cache/sinew/torch")

    def test_cache_that_cannot_be_made_is_said(self):
        self.compiler()
        (self.folder / "cache").write_text("a file where a folder should be")
        said = self.refusal(self.torch())
        for part in (str(self.cache), "Not a directory", "XDG_CACHE_HOME"):
            self.assertIn(part, said)

    def test_build_finds_the_torch_of_the_environment_and_not_what_pip_puts_around_it(self):
        environment = self.folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        ask = [environment / "bin/python", "-c", "import build; print(build.find_torch())"]
        here = str(Path(build.__file__).parent)
        around = {**os.environ, "PYTHONPATH": f"{self.torch('2.12.0').parent}:{here}", "PYTHONNOUSERSITE": "1"}
        self.assertEqual(subprocess.run(ask, env=around, capture_output=True, text=True).stdout, "None\n")
        (site,) = environment.glob("lib/python*/site-packages")
        torch = make_torch(site, "2.14.0")
        (torch / "__init__.py").write_text("raise RuntimeError('the build imports torch')\n")
        self.assertEqual(subprocess.run(ask, env=around, capture_output=True, text=True).stdout, f"{torch}\n")

    def run_build(self, *options):
        program = [sys.executable, build.__file__, "--prefix", self.installed, *options]
        return subprocess.run(program, capture_output=True, text=True, check=True).stdout

    def test_package_is_built_without_extension_where_there_is_no_torch_for_it(self):
        for options, said in (
            (["--torch", "OFF"], "no torch"),
            (["--torch", self.torch("2.9.0")], "needs torch 2.11"),
        ):
            self.assertIn(said, self.run_build(*options))
        self.assertEqual(list(self.installed.glob(f"torch/*{SUFFIX}")), [])

    def test_package_is_built_with_the_extension_for_the_torch_that_is_named(self):
        self.compiler()
        self.assertIn("for torch 2.12.0", self.run_build("--torch", self.torch("2.12.0")))
        self.assertEqual([file.name for file in self.installed.glob(f"torch/*{SUFFIX}")], [f"_C_2_12{SUFFIX}"])


if __name__ == "__main__":
    unittest.main()
