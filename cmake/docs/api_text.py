"""Declarations and their comments as Markdown."""

import html
import re

LABEL = re.compile(r"(Shape|Units|Text|Thread|Lifetime|Errors|Cost|Source|Order|Memory|Model|Precondition|Args|Returns): +(.*)")
WIDTH = 100


def escaped(text):
    """Text in which only what stands between backticks is Markdown."""

    def outside(part):
        return re.sub(r"([\\*_\[\]#~^|=+!-])", lambda match: f"&#{ord(match[1])};", html.escape(part, quote=False))

    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if at % 2 else outside(part) for at, part in enumerate(parts))


def in_cell(code):
    """Code in a cell of a table."""
    return f"<code>{html.escape(code, quote=False).replace('|', '&#124;')}</code>" if code else ""


def blocks(comment):
    """(kind, text) of each paragraph, item, labelled item and piece of code of a comment."""
    kind, lines = None, []
    for line in [*comment.split("\n"), ""]:
        label, item = LABEL.match(line), re.match(r"(?:[-*]|\d+\.) +(.*)", line)
        indented = line.startswith("  ")
        begins = None
        if not line.strip():
            begins = "end"
        elif label or item:
            begins = "item"
        elif indented and kind in (None, "paragraph"):
            begins = "code"
        elif kind is None or (not indented and kind in ("item", "code")):
            begins = "paragraph"
        if begins:
            if lines:
                yield kind, lines
            kind, lines = (None, []) if begins == "end" else (begins, [])
        if label:
            lines.append((label[1], label[2]))
        elif item:
            lines.append(("", item[1]))
        elif line.strip():
            lines.append(line if kind == "code" else line.strip())


def item_text(lines):
    name, first = lines[0]
    text = escaped(" ".join([first, *lines[1:]]))
    return f"**{name}:** {text}" if name else text


def markdown(comment):
    made, before = [], None
    for kind, lines in blocks(comment):
        if kind == "code":
            made.append("\n```cpp\n" + "\n".join(line[2:] for line in lines) + "\n```\n")
        elif kind == "item":
            made.append(("" if before == "item" else "\n") + f"- {item_text(lines)}")
        else:
            made.append("\n" + escaped(" ".join(lines)))
        before = kind
    return "\n".join(made) + "\n"


def cell(comment):
    texts = [item_text(lines) if kind == "item" else escaped(" ".join(map(str.strip, lines))) for kind, lines in blocks(comment)]
    return "<br>".join(texts)


def laid_out(text):
    """A declaration of one line, or with a line for each parameter where it is too long for that."""
    flat = " ".join(text.split())
    if len(flat) <= WIDTH or "(" not in flat:
        return text if "(" not in flat else flat
    depth, parts, start = 0, [], None
    for at, char in enumerate(flat):
        if char in "([{<":
            depth += 1
            if char == "(" and depth == 1 and start is None:
                start = at + 1
                begin = start
        elif char in ")]}>" and flat[at - 1] != "-":
            depth -= 1
            if depth == 0 and char == ")" and start is not None:
                parts.append(flat[begin:at].strip())
                return f"{flat[:start]}\n    " + ",\n    ".join(parts) + flat[at:]
        elif char == "," and depth == 1 and start is not None:
            parts.append(flat[begin:at].strip())
            begin = at + 1
    return flat
