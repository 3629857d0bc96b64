"""Reads the marks of a page. A mark says what the test must do with a block or a table.

A mark is a comment of Markdown in the line before the block or the table. These are the marks:

- file: NAME. The block is the file NAME.
- file: NAME, from PAGE. The page PAGE of the same folder has the file.
- run. The commands of the block end with 0.
- run, ends with N. The commands end with N.
- run, needs python. The commands are passed over if the Python package is not built.
- printed. The commands before have printed each line of the block.
- cells: cpp. The code in the last column of the table compiles. The next lines of the mark are includes.
  The variables of the code follow after a line "---". They are written as parameters of a function.
- cells: python. The code in the last column of the table runs. The next lines of the mark run before it.
"""

import dataclasses
import re

FENCE = re.compile(r"```(\w*)$")


@dataclasses.dataclass
class Block:
    line: int  # of its first line of text
    language: str
    text: str
    mark: str = ""  # "file: sum.cpp"; "": the page only shows it


@dataclasses.dataclass
class Table:
    language: str
    given: str  # what stands above the cells
    cells: list  # (line, code)


def marked(lines, at):
    """The mark that ends in the line before `at`."""
    if at == 0 or not lines[at - 1].endswith("-->"):
        return ""
    first = at - 1
    while not lines[first].startswith("<!--"):
        first -= 1
    return "\n".join(lines[first:at]).removeprefix("<!--").removesuffix("-->").strip()


def read(path):
    """The blocks and tables of a page."""
    lines, at, blocks, tables = path.read_text(encoding="utf-8").split("\n"), 0, [], []
    copies = [
        Block(number + 1, "", "", found[1])
        for number, line in enumerate(lines)
        if (found := re.fullmatch(r"<!-- (file: \S+, from \S+) -->", line))
    ]
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence:
            end = lines.index("```", at + 1)
            text = "\n".join(lines[at + 1 : end]) + "\n"
            blocks.append(Block(at + 2, fence[1], text, marked(lines, at)))
            at = end
        elif lines[at].startswith("|") and marked(lines, at).startswith("cells: "):
            language, _, given = marked(lines, at).removeprefix("cells: ").partition("\n")
            cells = []
            while at < len(lines) and lines[at].startswith("|"):
                last = lines[at].rstrip("| ").rpartition("|")[2]
                cells += [(at + 1, code) for code in re.findall(r"`([^`]+)`", last)]
                at += 1
            tables.append(Table(language, given, cells))
        at += 1
    return sorted(blocks + copies, key=lambda block: block.line), tables
