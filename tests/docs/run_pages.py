"""Runs the commands and compiles the code of docs/tutorial, docs/coming_from and docs/reference that have a mark.

page.py lists the marks.

run_pages.py SOURCE BUILD WORK [PYTHON]     PYTHON: the interpreter for which the Python package is built
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import page

FOLDERS = ("tutorial", "coming_from", "reference")
LIBRARIES = "-lsinew_parallel -lsinew_collectives -lsinew_transports -lsinew_topology -lsinew_core"


class Site:
    def __init__(self, source, build, work, python):
        self.source, self.build, self.work, self.python = source, build, work, python
        self.faults = []
        self.done = 0
        self.printed = ""  # by the last commands
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        self.write_package()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SINEW_")}
        if "SINEW_CACHE" in os.environ:
            self.environment["SINEW_CACHE"] = os.environ["SINEW_CACHE"]
        path = [build / "bin", *([python.parent] if python else []), self.environment["PATH"]]
        self.environment |= {
            "PATH": ":".join(map(str, path)),
            "PKG_CONFIG_PATH": str(work / "pkgconfig"),
            "PYTHONPATH": str(build / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def write_package(self):
        """A sinew.pc of this build, as an installed sinew has one."""
        roots = " ".join(f"-I{root}" for root in sorted((self.source / "cmake/roots").iterdir()))
        (self.work / "pkgconfig").mkdir()
        (self.work / "pkgconfig/sinew.pc").write_text(
            "Name: sinew\nDescription: sinew as it was built\nVersion: 0\nRequires: fmt\n"
            f"Libs: -L{self.build}/lib -Wl,-rpath,{self.build}/lib {LIBRARIES}\n"
            f"Cflags: -std=c++20 {roots} -I{self.build}/made\n",
            encoding="utf-8",
        )

    def fault(self, path, line, text):
        self.faults.append(f"{path.relative_to(self.source)}:{line}: {text}")

    def run(self, path, block, folder):
        expected = int(found[1]) if (found := re.search(r"ends with (\d+)", block.mark)) else 0
        if "needs python" in block.mark and self.python is None:
            print(f"passed over: {path.name}:{block.line}: the Python package is not built", flush=True)
            return
        # The file is read by a shell of its own, so that signals of a job reach no one else.
        ended = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block.text],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
            start_new_session=True,
        )
        self.done += 1
        self.printed = ended.stdout.decode(errors="replace")
        if ended.returncode != expected:
            self.fault(path, block.line, f"ended with {ended.returncode}, expected {expected}:\n{block.text}{self.printed}")

    def file_of(self, path, block):
        """The text of `file: NAME` or `file: NAME, from PAGE`."""
        name, _, other = block.mark.removeprefix("file: ").partition(", from ")
        if not other:
            return name, block.text
        for each in page.read(path.parent / other)[0]:
            if each.mark == f"file: {name}":
                return name, each.text
        raise SystemExit(f"{path}:{block.line}: expected {other} to have a block of the file {name}")

    def check(self, path):
        folder = self.work / path.parent.name / path.stem
        folder.mkdir(parents=True)
        blocks, tables = page.read(path)
        for block in blocks:
            if block.mark.startswith("file: "):
                name, text = self.file_of(path, block)
                (folder / name).write_text(text, encoding="utf-8")
            elif block.mark == "run" or block.mark.startswith("run, "):
                self.run(path, block, folder)
            elif block.mark == "printed":
                for line in block.text.splitlines():
                    if line not in self.printed:
                        self.fault(path, block.line, f"the commands before have not printed '{line}', but:\n{self.printed}")
            elif block.mark:
                self.fault(path, block.line, f"the mark '{block.mark}' is none of those in tests/docs/page.py")
            elif block.language in ("sh", "cpp", "c"):
                self.fault(path, block.line, f"a block of {block.language} has no mark, so nothing tests it")
            elif block.language == "python":
                compile(block.text, f"{path}:{block.line}", "exec")
        return [(path, table) for table in tables]

    def check_cpp(self, tables):
        """Compiles the cells of all tables at once."""
        includes, functions = [], []
        for number, (path, table) in enumerate(tables):
            above, _, parameters = table.given.partition("\n---\n")
            includes += above.split("\n")
            functions.append(f"[[maybe_unused]] static void table_{number}({parameters}) {{")
            for line, code in table.cells:
                functions += [f'#line {line} "{path}"', f"{{ {code}; }}"]
            functions.append("}")
        includes = sorted(set(includes), key=lambda line: (not line.startswith("#include"), line))
        file = self.work / "cells.cpp"
        file.write_text("\n".join([*includes, *functions]) + "\n", encoding="utf-8")
        flags = subprocess.run(["pkg-config", "--cflags", "sinew"], env=self.environment, capture_output=True, text=True, check=True)
        command = ["c++", "-fsyntax-only", "-w", *flags.stdout.split(), str(file)]
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        self.done += len(tables)
        if ended.returncode != 0:
            self.faults.append(f"the code in tables does not compile:\n{ended.stderr}")

    def check_python(self, tables):
        if self.python is None:
            print(f"passed over: {len(tables)} tables of Python code: the Python package is not built", flush=True)
            return
        for path, table in tables:
            program = [table.given, *[f"# line {line}\n{code}" for line, code in table.cells]]
            ended = subprocess.run(
                [str(self.python), "-c", "\n".join(program)], env=self.environment, capture_output=True, text=True, timeout=120, check=False
            )
            self.done += 1
            if ended.returncode != 0:
                self.fault(path, table.cells[0][0], f"the code in the table does not run:\n{ended.stderr}")


def main():
    source, build, work = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
    python = pathlib.Path(sys.argv[4]).absolute() if len(sys.argv) > 4 else None  # a link into an environment stays one
    site = Site(source, build, work, python)
    tables = []
    for folder in FOLDERS:
        for path in sorted((source / "docs" / folder).glob("*.md")):
            tables += site.check(path)
    site.check_cpp([each for each in tables if each[1].language == "cpp"])
    site.check_python([each for each in tables if each[1].language == "python"])
    for fault in site.faults:
        print(fault)
    print(f"{site.done} blocks and tables, {len(site.faults)} faults")
    if site.done == 0:
        raise SystemExit("no page has anything to run")
    raise SystemExit(1 if site.faults else 0)


if __name__ == "__main__":
    main()
