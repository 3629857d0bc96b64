"""Pages of the command-line tools and of the SINEW_* variables, made by the programs themselves."""

import html
import json
import os
import pathlib
import re
import subprocess

from api_text import in_cell
from declarations import ROOT

TOOLS = ["sinew-run", "sinew-info", "sinew-bench", "sinew-sim", "sinew-conformance"]
PROGRAMS = pathlib.Path(os.environ.get("DOCS_PROGRAMS", ROOT / "build/release/bin"))


def not_built(program):
    return (
        f"**This page is incomplete.** The program `{program}` makes its content, and it was not built when this site was made. "
        "`./run build` builds it, and then `./run docs` makes this page whole.\n"
    )


def output_of(program, *arguments):
    """Returns the output of a program. None: the program is not built."""
    path = PROGRAMS / program
    if not path.exists():
        return None
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    if done.returncode != 0:
        raise SystemExit(f"{path} {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def plain(roff):
    """A line of a manual page without its marks for fonts."""
    return roff.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\&", "").replace("\\e", "\\")


def prose(roff):
    return re.sub(r"([*_\[\]|~#])", r"\\\1", html.escape(plain(roff), quote=False))


def markdown_of_manual(roff):
    """The manual page of a tool as Markdown: the same options, in tables."""
    made, lines, at, table = [], roff.split("\n"), 0, False
    while at < len(lines):
        line = lines[at]
        if table and not line.startswith(".TP"):
            table = False
            made.append("")
        if line.startswith(".TP"):
            if not table:
                made += ["", "| option | meaning |", "|---|---|"]
                table = True
            text = []
            name, at = lines[at + 1], at + 2
            while at < len(lines) and not lines[at].startswith("."):
                text.append(prose(lines[at]))
                at += 1
            made.append(f"| {in_cell(plain(name))} | {' '.join(text)} |")
            continue
        if line.startswith(".SH NAME"):
            at += 1  # the heading of the page says it
        elif line.startswith(".SH"):
            made.append(f"\n## {plain(line[4:]).capitalize()}\n")
        elif line.startswith(".SS"):
            made.append(f"\n### {plain(line[4:])}\n")
        elif line.startswith((".PP", ".TH")):
            made.append("")
        elif line.startswith(".nf"):
            end = lines.index(".fi", at)
            made += ["", "```text", *[plain(each) for each in lines[at + 1 : end]], "```", ""]
            at = end
        else:
            made.append(prose(line))
        at += 1
    return "\n".join(made) + "\n"


def tools():
    pages = {}
    index = ["# Tools\n\nThese pages are the manual pages of the programs.\n", "| program | what it does |", "|---|---|"]
    for tool in TOOLS:
        roff = output_of(tool, "--page", "man")
        pages[f"reference/tools/{tool}.md"] = f"# {tool}\n\n" + (not_built(tool) if roff is None else markdown_of_manual(roff))
        what = "" if roff is None else prose(re.search(r"\.SH NAME\n.*? \\- (.*)", roff)[1])
        index.append(f"| [{tool}]({tool}.md) | {what} |")
    pages["reference/tools/index.md"] = "\n".join(index) + "\n"
    return pages


def variables():
    """The table of docs/reference/variables.md."""
    text = output_of("sinew-info", "config", "--json")
    if text is None:
        return not_built("sinew-info")
    rows = ["| variable | takes | for | if not set |", "|---|---|---|---|"]
    for each in json.loads(text):
        name = f'<span id="{each["name"].lower()}">{in_cell(each["name"])}</span>'
        rows.append(f"| {name} | {prose(each['expected'])} | {prose(each['meaning'])} | {in_cell(each['value'])} |")
    return "\n".join(rows)
