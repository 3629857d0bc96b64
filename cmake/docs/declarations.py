"""The public declarations of sinew's headers with their comments, as libclang reads them."""

import dataclasses
import pathlib
import re
import textwrap

from clang import cindex
from clang.cindex import CursorKind

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLVM = pathlib.Path("/usr/lib/llvm-16/lib")  # of the Debian packages libclang1-16 and libclang-common-16-dev

# Headers that the build makes or that an MPI brings, with what the public headers need of them outside of bodies.
NOT_HERE = [
    (str(ROOT / "cmake/roots/core/sinew/core/contract_hash.hpp"), '#define SINEW_CONTRACT_HASH ""\n'),
    (str(ROOT / "cmake/roots/core/mpi.h"), "struct MPI_Comm {};\n"),
]

RECORDS = {CursorKind.CLASS_DECL, CursorKind.STRUCT_DECL, CursorKind.UNION_DECL, CursorKind.CLASS_TEMPLATE}
FUNCTIONS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
}
ALIASES = {CursorKind.TYPEDEF_DECL, CursorKind.TYPE_ALIAS_DECL, CursorKind.TYPE_ALIAS_TEMPLATE_DECL}
CONCEPT = CursorKind(604)  # CXCursor_ConceptDecl of libclang, which its Python package does not name
EXPORT = re.compile(r"\bSINEW_(?:C_)?API\s+|\bSINEW_INT_ENUM\b")


@dataclasses.dataclass
class Declaration:
    kind: str  # class, struct, enum, function, type, constant, member, enumerator, macro
    name: str
    text: str  # as the header has it, without a body
    comment: str  # Markdown-free text of its /// lines
    header: str  # such as sinew/core/error.hpp
    members: list = dataclasses.field(default_factory=list)
    default: str = ""  # of a member: its initial value


def cpp_headers():
    """The headers that an install copies, as includes name them: those that CMake's layers list under HEADERS."""
    headers = []
    for lists in sorted([*ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("transports/*/CMakeLists.txt")]):
        text = re.sub(r"#.*", "", lists.read_text(encoding="utf-8"))
        for arguments in re.findall(r"\bsinew_layer\(([^)]*)\)", text):
            words = re.sub(r"\$\{[^}]*\}", "", arguments).split()
            folder = words[words.index("FOLDER") + 1] if "FOLDER" in words else words[0]
            if "HEADERS" not in words:
                continue
            for word in words[words.index("HEADERS") + 1 :]:
                if not word.endswith(".hpp"):
                    break
                headers.append(f"sinew/{folder}/{word}")
    conformance = sorted((ROOT / "cmake/roots/conformance/sinew/conformance").glob("*.hpp"))
    headers += [f"sinew/conformance/{path.name}" for path in conformance]
    return [*headers, "sinew/collectives/mpi_exchange.hpp"]  # a program compiles the last one against its MPI


def plain_comment(raw):
    """The text of a comment of /// and ///< lines."""
    if raw is None:
        return ""
    lines = [re.sub(r"^\s*///?<? ?", "", line) for line in raw.split("\n")]
    return textwrap.dedent("\n".join(lines)).strip("\n")


def without_body(text):
    """A function's declaration: up to its body or its list of initializers."""
    depth = 0
    for at, char in enumerate(text):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth == 0 and char == "{":
            return text[:at]
        elif depth == 0 and char == ":" and ":" not in (text[at - 1], text[at + 1 : at + 2]) and ")" in text[:at]:
            return text[:at]
    return text


class Reader:
    """Walks what was parsed, and keeps what is public and of a header of sinew's."""

    def __init__(self, headers):
        self.headers = set(headers)
        self.texts = {}
        self.seen = set()

    def header_of(self, cursor):
        place = cursor.location.file
        if place is None:
            return None
        name = place.name[place.name.rfind("/sinew/") + 1 :] if "/sinew/" in place.name else pathlib.Path(place.name).name
        return name if name in self.headers else None

    def source(self, cursor):
        file = cursor.location.file.name
        if file not in self.texts:
            self.texts[file] = pathlib.Path(file).read_bytes()
        begin, end = cursor.extent.start, cursor.extent.end
        indent = " " * (begin.column - 1)
        text = self.texts[file][begin.offset : end.offset].decode()
        return textwrap.dedent(indent + EXPORT.sub("", text)).strip()

    def walk(self, cursor):
        """Declarations in the namespace or file `cursor`."""
        for child in cursor.get_children():
            kind = child.kind
            if kind == CursorKind.NAMESPACE:
                if (cursor.kind == CursorKind.NAMESPACE or child.spelling == "sinew") and child.spelling not in ("", "detail"):
                    yield from self.walk(child)
            elif kind in (CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL) and not child.spelling:
                yield from self.walk(child)  # extern "C"
            elif self.header_of(child) is not None:
                yield from self.declaration(child)

    def declaration(self, cursor):
        usr = cursor.get_usr()
        if usr in self.seen or not cursor.spelling:
            return
        kind, header = cursor.kind, self.header_of(cursor)
        comment = plain_comment(cursor.raw_comment)
        if kind in RECORDS or kind == CursorKind.ENUM_DECL:
            if not cursor.is_definition():
                return
            text = self.source(cursor).partition("{")[0].strip()
            made = Declaration(text_kind(text), cursor.spelling, text, comment, header)
            made.members = list(self.members(cursor))
        elif kind in FUNCTIONS:
            text = without_body(self.source(cursor)).strip()
            if text.startswith("friend") or text.endswith(("= delete", "= default")):
                return
            made = Declaration("function", cursor.spelling, f"{text};", comment, header)
        elif kind in ALIASES:
            if kind == CursorKind.TYPEDEF_DECL and cursor.underlying_typedef_type.get_declaration().is_definition():
                return  # typedef struct x {..} x
            made = Declaration("type", cursor.spelling, f"{self.source(cursor).rstrip(';')};", comment, header)
        elif kind in (CursorKind.VAR_DECL, CursorKind.UNEXPOSED_DECL):  # the second one: templates of variables
            text = self.source(cursor)
            if "= [" in text:  # a lambda
                text = text.partition("=")[0].strip()
            made = Declaration("constant", cursor.spelling, f"{text};", comment, header)
        elif kind == CONCEPT:
            made = Declaration("concept", cursor.spelling, f"{self.source(cursor).rstrip(';')};", comment, header)
        else:
            return
        self.seen.add(usr)
        yield made

    def members(self, record):
        for child in record.get_children():
            kind = child.kind
            if kind == CursorKind.ENUM_CONSTANT_DECL:
                made = Declaration("enumerator", child.spelling, self.source(child), plain_comment(child.raw_comment), "")
                made.default = str(child.enum_value)
                yield made
            elif child.access_specifier not in (cindex.AccessSpecifier.PUBLIC, cindex.AccessSpecifier.INVALID):
                continue
            elif kind == CursorKind.FIELD_DECL:
                made = Declaration(
                    "member", child.spelling, child.type.spelling, plain_comment(child.raw_comment), self.header_of(child)
                )
                source = " ".join(self.source(child).split())
                after = re.search(rf"\b{re.escape(child.spelling)}\b(.*)", source)
                if after and after[1].startswith(")"):  # a pointer to a function, whose type encloses its name
                    made.text = source
                elif after:
                    made.default = after[1].removeprefix(" ").removeprefix("= ")
                yield made
            elif self.header_of(child) is not None:
                yield from self.declaration(child)


def text_kind(text):
    for kind in ("enum", "class", "struct", "union"):
        if re.search(rf"(?:^|>\s*|\b){kind}\b", re.sub(r"<[^<>]*>", "<>", text)):
            return kind
    return "struct"


def macros(header, folder):
    """Macros of a header that have a comment. libclang reads no comments of macros."""
    lines = (folder / header).read_text(encoding="utf-8").split("\n")
    for at, line in enumerate(lines):
        found = re.match(r"#define (SINEW_\w+)", line)
        if not found or found[1].endswith("_") or not lines[at - 1].startswith("///"):
            continue
        first = at
        while lines[first - 1].startswith("///"):
            first -= 1
        last = at
        while lines[last].endswith("\\"):
            last += 1
        text = "\n".join(lines[at : last + 1])
        yield Declaration("macro", found[1], text, plain_comment("\n".join(lines[first:at])), header)


def parse(name, headers, arguments):
    if not cindex.Config.loaded:
        library = LLVM / "libclang-16.so.1"
        if not library.exists():
            raise SystemExit(f"{library}: expected libclang there; it is in the Debian package libclang1-16")
        cindex.Config.set_library_file(str(library))
    files = [(name, "".join(f"#include <{header}>\n" for header in headers)), *NOT_HERE]
    options = cindex.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES
    resources = ["-resource-dir", str(LLVM / "clang/16")]
    unit = cindex.Index.create().parse(name, [*arguments, *resources], files, options)
    faults = [str(each) for each in unit.diagnostics if each.severity >= cindex.Diagnostic.Error]
    if faults:
        raise SystemExit("the public headers cannot be read:\n" + "\n".join(faults[:10]))
    return list(Reader(headers).walk(unit.cursor))


def of_cpp():
    roots = [f"-I{root}" for root in sorted((ROOT / "cmake/roots").iterdir()) if root.name not in ("c", "tools")]
    found = parse("all.cpp", cpp_headers(), ["-xc++", "-std=c++20", *roots])
    for header in cpp_headers():
        root = next(root for root in (ROOT / "cmake/roots").iterdir() if (root / header).exists())
        found += macros(header, root)
    return found


def of_c():
    headers = [f"sinew/c/{path.name}" for path in sorted((ROOT / "c").glob("*.h")) if path.name != "sinew.h"]
    found = parse("all.c", headers, ["-xc", "-std=c11", f"-I{ROOT}/cmake/roots/c"])
    for header in headers:
        found += macros(header, ROOT / "cmake/roots/c")
    return found
