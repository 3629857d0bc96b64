#!/usr/bin/env python3
"""Counts comments that break the rules of language which a program can judge.

    comments.py check < FILES    prints the findings of each file that has more than cmake/lint/comments.txt allows it
    comments.py lower < FILES    writes smaller counts into cmake/lint/comments.txt. Never raises a count.
    comments.py begin < FILES    writes all counts as they are. For the first list, and after merges of branches.

FILES: names of .hpp, .cpp and .py files, one a line. A file that is not in the list may have no finding.
A file that was renamed since the list was last committed keeps its count.
"""

import ast
import collections
import pathlib
import re
import subprocess
import sys
import typing

COUNTS = pathlib.Path("cmake/lint/comments.txt")
GLOSSARY = pathlib.Path("docs/glossary.md")
COLUMNS = 120
COMMAS = 2

# Words of the glossary's column "not" that have other, plain uses.
AMBIGUOUS = {
    "announced",
    "area",
    "aside",
    "composition",
    "curve",
    "cut",
    "cutting",
    "gap",
    "in place",
    "notice",
    "outlet",
    "piece",
    "prove",
    "report",
    "ring",
    "seat",
    "the other",
    "turns",
    "way",
    "what comes after",
}

MIDDLE = re.compile(r"(?:Of|What|Who|Whose|Which|Whether|How)\b(?!.*\?$)", re.DOTALL)
NEGATION = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|cannot|neither)\b"
    r"(?:(?!\b(?:but|and|or|nor)\b)[^,;:.()`\"]){1,40}"
    r"\b(?:not|never|nobody|nothing|none|without|unless|un(?:able|usual|known|used|like))\b"
)
# Commas inside of these separate arguments, digits or examples.
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|\([^()]*\)|\[[^\]]*\]|\{[^}]*\}|<[^<> ]*>|\d,\d")
SENTENCE_END = re.compile(r"(?<=[.?!])[\"')]?\s+(?=[A-Z`\"'(\[{\d])")
LABEL = re.compile(r"(?:Shape|Units|Thread|Lifetime|Errors|Cost|Source|Order|Memory|Model|Precondition|Args|Returns):\s*")
LIST_ITEM = re.compile(r"(?:[-*]|\d+\.)\s")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'')


class Finding(typing.NamedTuple):
    line: int
    rule: str


class Comment(typing.NamedTuple):
    """A line of a comment. Lines of one block follow each other and form sentences together."""

    line: int
    text: str
    alone: bool  # nothing but the comment stands on the line
    columns: int


def private_words(glossary):
    """The words of the last column of the glossary's tables, longest first."""
    words = set()
    for row in glossary.splitlines():
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if len(cells) == 3 and not set(cells[0]) <= set("-") and cells[2] != "not":
            words |= {word.strip() for word in re.sub(r"\([^)]*\)", "", cells[2]).split(",")} - {""}
    return words - AMBIGUOUS


def word_pattern(words):
    if not words:
        return None
    choices = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"\b(?:{choices})(?:s|es)?\b", re.IGNORECASE)


def comments_of_cpp(text):
    raw = False  # inside a raw string
    for number, line in enumerate(text.splitlines(), 1):
        if raw:
            raw = ')"' not in line
            continue
        start = line.find('R"(')
        if start >= 0 and ')"' not in line[start:]:
            raw = True
            continue
        if "//" not in line:
            continue
        hidden = STRING.sub(lambda found: "x" * len(found[0]), line)
        at = hidden.find("//")
        if at < 0:
            continue
        yield Comment(number, line[at:].lstrip("/").lstrip("<").strip(), not line[:at].strip(), len(line))


def comments_of_python(text):
    lines = text.splitlines()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and node.body and ast.get_docstring(node, clean=False) is not None:
            string = node.body[0]
            for number in range(string.lineno, string.end_lineno + 1):
                line = lines[number - 1]
                found[number] = Comment(number, line.strip().strip('"').strip(), True, len(line))
    for number, line in enumerate(lines, 1):
        if number in found or "#" not in line or line.startswith("#!"):
            continue
        at = STRING.sub(lambda match: "x" * len(match[0]), line).find("#")
        if at >= 0:
            found[number] = Comment(number, line[at:].lstrip("#").strip(), not line[:at].strip(), len(line))
    return [found[number] for number in sorted(found)]


def sentences(comments):
    """(line on which the sentence begins, sentence)"""
    block, last = [], None
    for comment in [*comments, None]:
        follows = comment and last and comment.alone and last.alone and comment.line == last.line + 1
        starts_anew = comment and (not comment.text or LABEL.match(comment.text) or LIST_ITEM.match(comment.text))
        if block and (not follows or starts_anew):
            yield from split(block)
            block = []
        if comment and comment.text:
            block.append(comment)
        last = comment


def split(block):
    begins, joined = [], ""
    for comment in block:
        begins.append((len(joined), comment.line))
        joined += LABEL.sub("", LIST_ITEM.sub("", comment.text, 1), 1) + " "
    at = 0
    for end in [*SENTENCE_END.finditer(joined), None]:
        sentence = joined[at : end.start() if end else len(joined)].strip()
        if sentence:
            yield next(line for start, line in reversed(begins) if start <= at), sentence
        at = end.end() if end else len(joined)


def commas(sentence):
    """Commas between clauses: those of a list of short items do not count."""
    parts = QUOTED.sub("x", sentence).split(",")
    return sum(len(part.split()) > 3 for part in parts[1:])


def findings(path, text, words):
    comments = list(comments_of_python(text) if path.suffix == ".py" else comments_of_cpp(text))
    found = set()
    for comment in comments:
        if comment.columns > COLUMNS and " " in comment.text:
            found.add(Finding(comment.line, f"a comment of {comment.columns} columns ({COLUMNS} are the limit)"))
        word = words.search(QUOTED.sub("", comment.text)) if words else None
        if word:
            found.add(Finding(comment.line, f"'{word[0]}' is a private word; {GLOSSARY} has the field's"))
    for line, sentence in sentences(comments):
        if MIDDLE.match(sentence):
            found.add(Finding(line, f"a sentence that begins in the middle, with '{sentence.split()[0]}'"))
        if commas(sentence) > COMMAS:
            found.add(Finding(line, f"{commas(sentence)} commas between the clauses of a sentence ({COMMAS} are the limit)"))
        negation = NEGATION.search(sentence)
        if negation:
            found.add(Finding(line, f"a double negation: '{negation[0]}'"))
    return sorted(found)


def read_counts():
    rows = COUNTS.read_text(encoding="utf-8").splitlines() if COUNTS.exists() else []
    return {name: int(count) for name, count in (row.split() for row in rows if row and not row.startswith("#"))}


def git(*arguments):
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def with_new_names(counts):
    """The counts of files that were renamed since the list was committed, under their new names."""
    if all(pathlib.Path(name).exists() for name in counts):
        return counts
    commit = git("log", "-1", "--format=%H", "--", str(COUNTS)).strip()
    renames = {}
    if commit:
        # Files that git does not know yet have no old name.
        for row in git("diff", "--find-renames=40%", "-l0", "--diff-filter=R", "--name-status", commit).splitlines():
            _, old, new = row.split("\t")
            renames[old] = new
    moved = collections.Counter()
    for name, count in counts.items():
        moved[name if pathlib.Path(name).exists() else renames.get(name, name)] += count
    return dict(moved)


def write_counts(counts):
    head = (
        "# How many comments of a file break the rules of language that cmake/lint/comments.py judges. A file without a\n"
        "# row has none. A count may only fall: ./run format writes it when it has fallen.\n"
    )
    rows = "".join(f"{name} {count}\n" for name, count in sorted(counts.items()) if count)
    COUNTS.write_text(head + rows, encoding="utf-8")


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else None
    if command not in ("check", "lower", "begin"):
        raise SystemExit(__doc__)
    words = word_pattern(private_words(GLOSSARY.read_text(encoding="utf-8")) if GLOSSARY.exists() else set())
    names = sorted({line.strip() for line in sys.stdin} - {""})
    found = {}
    for name in names:
        path = pathlib.Path(name)
        found[name] = findings(path, path.read_text(encoding="utf-8", errors="replace"), words)
    if command == "begin":
        write_counts({name: len(rows) for name, rows in found.items()})
        return 0
    allowed = with_new_names(read_counts())
    if command == "lower":
        write_counts({name: min(len(rows), allowed.get(name, 0)) for name, rows in found.items()})
        return 0
    bad = {name: rows for name, rows in found.items() if len(rows) > allowed.get(name, 0)}
    for name, rows in bad.items():
        for row in rows:
            print(f"{name}:{row.line}: {row.rule}")
        print(f"{name}: {len(rows)} comments break the rules of language, {allowed.get(name, 0)} are allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
