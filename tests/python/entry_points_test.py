"""What PyTorch finds of sinew by itself, and what an import says that cannot work. No torch is needed."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from fakes.fake_torch import make_torch
from sinew import _libraries

PACKAGE = Path(_libraries.__file__).parents[1]


class EntryPointsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.site = Path(temporary.name)

    def python(self, program):
        paths = f"import sys; sys.path[:0] = [{str(PACKAGE)!r}, {str(self.site)!r}]\n"
        return subprocess.run([sys.executable, "-I", "-B", "-c", paths + program], capture_output=True, text=True)

    def registered(self, entry_point):
        ran = self.python(
            f"from sinew._entry_points import {entry_point}; {entry_point}()\n"
            "import torch.distributed; print(torch.distributed.Backend.registered, 'sinew.torch' in sys.modules)"
        )
        return ran.stdout or ran.stderr

    def test_backend_is_registered_for_both_devices_and_loads_nothing(self):
        make_torch(self.site, "2.15.0")
        self.assertEqual(self.registered("register"), "[('sinew', True, ['cpu', 'cuda'])] False\n")

    def test_import_of_torch_registers_it_only_where_torch_does_not_look_for_it(self):
        make_torch(self.site, "2.15.0", lists_backends=True)
        self.assertEqual(self.registered("autoload"), "[] False\n")

    def test_import_of_torch_registers_it_where_torch_looks_for_nothing_else(self):
        make_torch(self.site, "2.11.0", lists_backends=False)
        self.assertEqual(self.registered("autoload"), "[('sinew', True, ['cpu', 'cuda'])] False\n")

    def test_import_of_torch_works_where_torch_has_nothing_distributed(self):
        torch = make_torch(self.site, "2.11.0", lists_backends=False)
        (torch / "distributed.py").write_text("def is_available(): return False\n")
        ran = self.python("from sinew._entry_points import autoload; autoload()")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_package_imports_without_torch_and_its_backend_says_what_is_missing(self):
        said = "sinew.torch needs PyTorch, which this Python does not have: pip install 'sinew[torch]'"
        for _ in range(2):
            ran = self.python("import sinew; print('imported')\nimport sinew.torch")
            self.assertEqual(ran.stdout, "imported\n")
            self.assertEqual(ran.stderr.splitlines()[-1], f"ModuleNotFoundError: {said}")
            (self.site / "torch").mkdir(exist_ok=True)  # a folder of this name is no PyTorch

    def test_module_that_torch_itself_misses_is_not_taken_for_torch(self):
        torch = make_torch(self.site, "2.15.0")
        (torch / "__init__.py").write_text("import no_such_module\n")
        self.assertIn("No module named 'no_such_module'", self.python("import sinew.torch").stderr)

    def test_missing_library_is_named_with_its_package(self):
        said = _libraries._explained("libssl.so.3: cannot open shared object file: No such file or directory")
        self.assertEqual(said, "sinew needs libssl.so.3, which this machine does not have: apt-get install libssl3")
        said = _libraries._explained("libc.so.6: version `GLIBC_2.99' not found")
        self.assertIn("build the package on this machine", said)


if __name__ == "__main__":
    unittest.main()
