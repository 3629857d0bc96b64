"""The stub says what the extension has, and mypy accepts the package and its examples."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TEST_SOURCE"])


class Typing(unittest.TestCase):
    def test_stub_is_the_one_that_the_extension_gives(self):
        made = Path(os.environ["TEST_SCRATCH"]) / "_core.pyi"
        made.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "sinew._core", "-o", made,
                   "-p", SOURCE / "python/core/stub_prefix.txt"]
        subprocess.run(command, check=True)
        committed = SOURCE / "python/sinew/_core.pyi"
        self.assertEqual(
            committed.read_text(), made.read_text(), f"the extension has changed: cp {made} {committed}"
        )

    def mypy(self, *files):
        environment = {**os.environ, "MYPYPATH": str(SOURCE / "python")}
        ran = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.environ["TEST_SCRATCH"] + "/mypy", *map(str, files)],
            capture_output=True, text=True, env=environment,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def test_package_and_examples_pass_mypy_strict(self):
        package = [f for f in (SOURCE / "python/sinew").glob("*.py") if f.name != "_entry_points.py"]  # torch's types
        status, said = self.mypy(*package, *(SOURCE / "examples/python").glob("*.py"))
        self.assertEqual(status, 0, said)

    def test_wrong_use_does_not_pass(self):
        wrong = Path(os.environ["TEST_SCRATCH"]) / "wrong_use.py"
        wrong.write_text(
            "import sinew\n"
            "world = sinew.World(threads='many')\n"
            "world.communicator.all_reduce(3.0)\n"
            "world.communicator.all_reduce(bytearray(8), op='plus')\n"
            "text: str = world.communicator.start_barrier()\n"
        )
        status, said = self.mypy(wrong)
        self.assertEqual(status, 1)
        for line in (2, 3, 4, 5):
            self.assertIn(f"wrong_use.py:{line}: error", said)


if __name__ == "__main__":
    unittest.main()
