"""Hooks of mkdocs for the documentation site: pages that are made from the code, and Markdown as GitHub reads it."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]

FENCE = re.compile(r"[ \t]*(```|~~~)")
LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d+\.)[ \t]")


def expanded(entries):
    """The nav with each entry FOLDER/* replaced by the pages of that folder."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        ((title, value),) = entry.items()
        if isinstance(value, str) and value.endswith("/*"):
            folder = ROOT / "docs" / value.removesuffix("/*")
            value = [f"{folder.name}/{page.name}" for page in sorted(folder.glob("*.md"))]
        elif isinstance(value, list):
            value = list(expanded(value))
        yield {title: value}


def on_config(config):
    config.nav = list(expanded(config.nav))
    return config


def with_blank_lines(markdown):
    """Puts a blank line before each list and table that follows a paragraph. GitHub needs none there, mkdocs does."""
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
    return with_blank_lines(markdown)
