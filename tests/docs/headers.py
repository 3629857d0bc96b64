"""The public names of a header, found without a compiler: an enumeration that is independent of libclang's."""

import re

NOISE = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"  # lines of the preprocessor
    r"|\"(?:[^\"\\\n]|\\.)*\"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'"  # texts; not the marks between digits
    r"|\[\[[^\]]*\]\]|\bSINEW_(?:C_API|API|INT_ENUM)\b",
    re.DOTALL | re.MULTILINE,
)
TYPE = re.compile(r"(?:^|\s)(enum class|enum|class|struct|union) (\w+)(?: final)?(?: ?: .*)?$")
NAMELESS = re.compile(r"\b(?:friend|static_assert|operator|using namespace)\b|^using [\w:]+$|~\w+ ?\(|= (?:delete|default)$")
CALLED = re.compile(r"\b(?:noexcept|explicit|alignas|decltype|sizeof|requires) ?\((?:[^()]|\([^()]*\))*\)")


def flat(text):
    """On one line, without what stands in angle brackets."""
    text, before = " ".join(text.split()), None
    while before != text:
        before, text = text, re.sub(r"<[^<>;{}]*>", "", text)
    return " ".join(re.sub(r"\b(?:template|inline|constexpr|typedef)\b|\brequires [\w:]+(?: && [\w:]+)*", " ", text).split())


def declared(text):
    """The name that a declaration declares. None: it has none, or another one's."""
    text = CALLED.sub(" ", flat(text))
    if not text or NAMELESS.search(text) or re.fullmatch(r"(?:enum class|enum|class|struct|union) \w+(?: : [\w:]+)?", text):
        return None
    if found := re.match(r"using (\w+) =", text):
        return found[1]
    head = text.partition("=")[0]
    if found := re.search(r"\(\*(\w+)\)", head) or re.search(r"(\w+) ?\(", head):
        return found[1]
    found = re.search(r"(\w+)(?: ?\[[^\]]*\])*(?: : \d+)? ?$", head)
    return found[1] if found else None


def is_function(head):
    """True if the text before a brace declares a function."""
    text, before = re.sub(r"operator ?[^\w\s(]+", "operator", head), None
    while before != text:
        before, text = text, re.sub(r"\([^()]+\)", "()", text)
    return "()" in text.partition("=")[0]


class Scope:
    def __init__(self, kind, public):
        self.kind = kind  # names, record, enum, body
        self.public = public  # what stands in it can be used by everybody
        self.shown = public  # the same for the section of a class that is read


def names(text):
    """Types, functions, constants, public members and enumerators of a header."""
    text = NOISE.sub(" ", text)
    found, scopes, statement, depth, skips = set(), [Scope("names", True)], "", 0, False

    def note(name):
        if name and scopes[-1].shown:
            found.add(name)

    for char in text:
        scope = scopes[-1]
        if scope.kind == "body":
            if char == "{":
                scopes.append(Scope("body", False))
            elif char == "}":
                scopes.pop()
            continue
        depth += (char in "([") - (char in ")]")
        if depth or char not in "{};,:":
            statement += char
        elif char == "{":
            head = flat(statement)
            kind = TYPE.search(head) if "(" not in head else None
            if re.match(r"namespace\b|extern\b", head):
                scopes.append(Scope("names", scope.public and not re.search(r"\bdetail\b|namespace$", head)))
            elif kind and not skips:
                note(kind[2])
                scopes.append(Scope("enum" if "enum" in kind[1] else "record", scope.shown))
                scopes[-1].shown = scope.shown and kind[1] != "class"
            else:
                if not skips:
                    note(declared(statement))
                skips = skips or not is_function(head)  # a value in braces ends with a semicolon
                scopes.append(Scope("body", False))
            statement = ""
        elif char == "}":
            if scope.kind == "enum" and statement.strip():
                note(re.match(r"\s*(\w+)", statement)[1])
            scopes.pop()
            skips = scope.kind in ("enum", "record")
            statement = ""
        elif char == ";":
            if not skips:
                note(declared(statement))
            statement, skips = "", False
        elif char == "," and scope.kind == "enum":
            note(re.match(r"\s*(\w+)", statement)[1])
            statement = ""
        elif char == ":" and scope.kind == "record" and statement.strip() in ("public", "private", "protected"):
            scope.shown = scope.public and statement.strip() == "public"
            statement = ""
        else:
            statement += char
    return found
