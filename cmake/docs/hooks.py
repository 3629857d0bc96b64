"""Hooks of mkdocs for the documentation site. They add the pages that are made from the code."""

import pathlib
import re
import sys

from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api_pages
import python_pages
import tool_pages

ROOT = pathlib.Path(__file__).resolve().parents[2]

FENCE = re.compile(r"[ \t]*(```|~~~)")
LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d+\.)[ \t]")

GENERATORS = (api_pages.cpp, api_pages.c, python_pages.python, tool_pages.tools)
# A line <!-- made: NAME --> of a page in docs/ stands for what is made from the code.
PARTS = {"torch operators": python_pages.torch, "variables": tool_pages.variables}
PART = re.compile(r"^<!-- made: (.*) -->$", re.MULTILINE)
generated = {}


def pages_of(folder):
    """The pages of docs/ and the generated ones in this folder, its index first."""
    names = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / folder).glob("*.md")}
    names |= {name for name in generated if name.rpartition("/")[0] == folder}
    return sorted(names, key=lambda name: (not name.endswith("/index.md"), name.removesuffix(".md")))


def expanded(entries):
    """The nav with each entry FOLDER/* replaced by the pages of that folder."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        ((title, value),) = entry.items()
        if isinstance(value, str) and value.endswith("/*"):
            value = pages_of(value.removesuffix("/*"))
        elif isinstance(value, list):
            value = list(expanded(value))
        yield {title: value}


def on_config(config):
    generated.clear()
    for generator in GENERATORS:
        generated.update(generator())
    config.nav = list(expanded(config.nav))
    return config


def on_files(files, config):
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    return files


def with_blank_lines(markdown):
    """Puts a blank line before each list and table that follows a paragraph. mkdocs needs it there."""
    lines, before, inside = [], "", False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            inside = not inside
        elif not inside and before.strip():
            starts_list = LIST_ITEM.match(line) and not LIST_ITEM.match(before) and not before.startswith(" ")
            starts_table = line.startswith("|") and not before.startswith("|")
            if starts_list or starts_table:
                lines.append("")
        lines.append(line)
        before = line
    return "\n".join(lines)


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri in generated:
        return markdown
    return PART.sub(lambda match: PARTS[match[1]](), with_blank_lines(markdown))
