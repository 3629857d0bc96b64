"""Pages of the C++ and C API: one page for each folder of headers."""

import collections
import re

import declarations
from api_text import cell, in_cell, laid_out, markdown

ROOMS = re.compile(r"^\| (?:`([a-z_]+)`)? *\| ((?:`[a-z_/]+`(?:, )?)+) \| (.*) \|$", re.MULTILINE)
INTRODUCTIONS = {
    "core": "What users and authors of transports include of this layer: errors, buffers, dtypes, works, the contract of transports.",
    "collectives": "What programs include: World, Communicator, plans, messages.",
    "topology": "What programs include to describe machines and clusters.",
    "transports": "The transports of this build.",
    "conformance": "The conformance suite, for authors of transports: `docs/adding_a_transport.md`.",
}


def room_texts():
    """{folder: what it is}, as docs/design.md tells it."""
    texts, layer = dict(INTRODUCTIONS), ""
    design = (declarations.ROOT / "docs/design.md").read_text(encoding="utf-8")
    for match in ROOMS.finditer(design):
        layer = match[1] or layer
        for room in re.findall(r"`([a-z_/]+)`", match[2]):
            texts[f"{layer}/{room}"] = match[3][:1].upper() + match[3][1:] + "."
    return texts


class Page:
    """The Markdown of one page, and the anchors that it has given away."""

    def __init__(self, language):
        self.language = language
        self.lines = []
        self.anchors = collections.Counter()

    def heading(self, level, text, name):
        anchor = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")
        self.anchors[anchor] += 1
        if self.anchors[anchor] > 1:
            anchor += f"-{self.anchors[anchor]}"
        self.lines.append(f"\n{'#' * level} {text} {{#{anchor}}}\n")
        return anchor

    def code(self, text):
        self.lines.append(f"\n```{self.language}\n{text}\n```\n")

    def table(self, head, rows):
        self.lines.append("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        self.lines += ["| " + " | ".join(row) + " |" for row in rows]
        self.lines.append("")

    def text(self):
        return "\n".join(self.lines) + "\n"


def write_functions(page, level, owner, functions):
    """Functions of one name have one heading."""
    names = dict.fromkeys(each.name for each in functions)
    for name in names:
        same = [each for each in functions if each.name == name]
        page.heading(level, f"`{name}`", f"{owner}-{name}")
        for each in same:
            page.code(laid_out(each.text))
            page.lines.append(markdown(each.comment))


def write_record(page, level, owner, record):
    full = f"{owner}-{record.name}" if owner else record.name
    page.heading(level, f"{record.kind} `{record.name}`", full)
    page.code(" ".join(record.text.split()) + (" { .. };" if record.members else ";"))
    page.lines.append(markdown(record.comment))
    if record.kind == "enum":
        numbers = page.language == "c"
        page.table(
            ["enumerator", *(["value"] if numbers else []), "meaning"],
            [[in_cell(each.name), *([each.default] if numbers else []), cell(each.comment)] for each in record.members],
        )
        return
    fields = [each for each in record.members if each.kind == "member"]
    if fields:
        page.table(
            ["member", "type", "initially", "meaning"],
            [[in_cell(each.name), in_cell(each.text), in_cell(each.default), cell(each.comment)] for each in fields],
        )
    below = min(level + 1, 6)
    for each in record.members:
        if each.kind in ("class", "struct", "union", "enum"):
            write_record(page, below, full, each)
    for each in record.members:
        if each.kind in ("type", "constant"):
            page.code(each.text)
            page.lines.append(markdown(each.comment))
    write_functions(page, below, full, [each for each in record.members if each.kind == "function"])


def write_header(page, header, found):
    page.heading(2, f"`{header}`", header)
    if not found:
        page.lines.append("This header has nothing for programs: it serves the other headers.\n")
    for each in found:
        if each.kind in ("class", "struct", "union", "enum"):
            write_record(page, 3, "", each)
    for each in found:
        if each.kind in ("type", "constant", "concept", "macro"):
            page.heading(3, f"`{each.name}`", each.name)
            page.code(each.text)
            page.lines.append(markdown(each.comment))
    write_functions(page, 3, "", [each for each in found if each.kind == "function"])


def by_header(found):
    headers = {}
    for each in found:
        headers.setdefault(each.header, []).append(each)
    return headers


def cpp():
    """{path of a page: its Markdown} of the C++ API."""
    texts, folders, pages = room_texts(), {}, {}
    declared = by_header(declarations.of_cpp())
    for header in sorted(declarations.cpp_headers()):
        found = declared.get(header, [])
        folders.setdefault(header.removeprefix("sinew/").rpartition("/")[0], {})[header] = found
    index = [
        "# C++\n\nThese pages show every public declaration of the installed headers with its comment. The headers of a layer's own folder,",
        "such as [`collectives`](collectives.md), are those that most programs need.\n",
        "| folder | what it is | classes and enums |\n|---|---|---|",
    ]
    for folder, headers in sorted(folders.items()):
        page = Page("cpp")
        page.lines.append(f"# {folder}\n\n{texts.get(folder, '')}\n")
        for header, found in headers.items():
            write_header(page, header, found)
        path = folder.replace("/", "-") + ".md"
        pages[f"reference/cpp/{path}"] = page.text()
        types = [each.name for found in headers.values() for each in found if each.kind in ("class", "struct", "enum")]
        index.append(f"| [{folder}]({path}) | {texts.get(folder, '')} | {', '.join(f'`{name}`' for name in types)} |")
    pages["reference/cpp/index.md"] = "\n".join(index) + "\n"
    return pages


def c():
    """{path: Markdown} of the C API."""
    page = Page("c")
    page.lines.append(
        "# C\n\nA program includes `<sinew.h>`, which includes these headers. [C](../c.md) is the guide.\n"
    )
    for header, found in sorted(by_header(declarations.of_c()).items()):
        write_header(page, header, found)
    return {"reference/c.md": page.text()}
