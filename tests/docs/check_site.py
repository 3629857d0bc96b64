"""Makes the documentation site, strictly, and checks that it is whole and that its pages fetch nothing.

check_site.py SOURCE BUILD WORK

The pages of the reference must have every name of the installed headers. They must have every option of the tools.
They must have every SINEW_ variable that the code reads, and every error code.
Ends with 77 if the packages of ./run docs are not installed.
"""

import html
import os
import pathlib
import re
import shutil
import subprocess
import sys

import headers

TOOLS = ("sinew-run", "sinew-info", "sinew-bench", "sinew-sim", "sinew-conformance")
CODE = ("core", "topology", "transports", "collectives", "c", "parallel", "python", "tools")


class Site:
    def __init__(self, source, build, work):
        self.source, self.build, self.work = source, build, work
        self.python = source / "build/site/bin/python"
        self.words = {}  # by page

    def make(self, config, folder):
        """Returns the output of mkdocs, and whether it ended well."""
        environment = {**os.environ, "DOCS_PROGRAMS": str(self.build / "bin"), "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [self.python, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout, done.returncode == 0

    def text(self, page):
        return html.unescape(re.sub(r"<[^>]*>", " ", (self.work / "site" / page).read_text(encoding="utf-8")))

    def words_of(self, page):
        if page not in self.words:
            path = self.work / "site" / page
            self.words[page] = set(re.findall(r"[\w-]*\w", self.text(page))) if path.exists() else set()
        return self.words[page]

    def lacks(self, page, names):
        """A fault for each name that the page does not have."""
        words = self.words_of(page)
        return [f"{page}: lacks {name}" for name in sorted(names) if name not in words]


def installed_headers(build):
    """(as includes name it, file) of each header that the package libsinew-dev has."""
    for script in build.rglob("cmake_install.cmake"):
        for rule in re.findall(r"file\(INSTALL DESTINATION \"[^\"]*/include[^)]*\)", script.read_text(encoding="utf-8")):
            destination = re.search(r"/include(?:/([^\"]*))?\"", rule)[1] or ""
            for file in re.findall(r"\"(/[^\"]*\.hp?p?)\"", rule):
                path = pathlib.Path(file)
                within = re.search(r"/cmake/roots/\w+/(sinew/.*)", file)
                yield (within[1] if within else f"{destination}/{path.name}".lstrip("/")), path


def check_headers(site):
    faults, count = [], 0
    for include, path in sorted(set(installed_headers(site.build))):
        if include in ("sinew.h",) or "/made/" in str(path):
            continue  # it includes the others; a number of the build
        folder = include.removeprefix("sinew/").rpartition("/")[0]
        page = "reference/c.html" if folder == "c" else f"reference/cpp/{folder.replace('/', '-')}.html"
        if include not in site.text(page) if (site.work / "site" / page).exists() else True:
            faults.append(f"{page}: lacks the header {include}")
            continue
        found = headers.names(path.read_text(encoding="utf-8"))
        count += len(found)
        faults += site.lacks(page, found)
    print(f"{count} names of headers")
    return faults if count > 5000 else [*faults, f"only {count} names were found in the installed headers of {site.build}"]


def check_c_symbols(site):
    """The functions that the C library exports, as the linker knows them."""
    listed = subprocess.run(["nm", "-D", "--defined-only", site.build / "lib/libsinew.so"], capture_output=True, text=True, check=True)
    exported = set(re.findall(r"\b(sinew_\w+)", listed.stdout))
    return site.lacks("reference/c.html", exported) if exported else ["libsinew.so exports nothing"]


def options_of(program, *command):
    """The options in --help of a program, or of one of its commands, and of the commands below."""
    help_text = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True).stdout
    found, section = set(), ""
    for line in help_text.split("\n"):
        if heading := re.fullmatch(r"([A-Za-z ]+):", line):
            section = heading[1]
        elif (first := re.match(r"  (-\S+)", line)) and section != "Examples":
            found |= {name.rstrip(",") for name in first[1].split(",") if name.startswith("-")}
        elif section == "Subcommands" and (first := re.match(r"  ([a-z]\S*)", line)):
            found |= options_of(program, *command, first[1])
    return found


def check_tools(site):
    faults = []
    for tool in TOOLS:
        options = {option.partition("=")[0].strip() for option in options_of(site.build / "bin" / tool)}
        faults += site.lacks(f"reference/tools/{tool}.html", options)
        if len(options) < 3:
            faults.append(f"{tool} --help: only {options} was found")
    return faults


def check_variables(site):
    listed = subprocess.run(["git", "ls-files", *CODE], cwd=site.source, capture_output=True, text=True, check=False).stdout.split()
    files = [site.source / name for name in listed] or [path for folder in CODE for path in (site.source / folder).rglob("*")]
    read = set()
    for path in files:
        if path.suffix in (".cpp", ".hpp", ".py") and path.is_file():
            read |= set(re.findall(r"[\"'](SINEW_[A-Z_]+)[\"'= ]", path.read_text(encoding="utf-8")))
    read -= {"SINEW_"}
    print(f"{len(read)} variables")
    return site.lacks("reference/variables.html", read) if len(read) > 20 else [f"only {read} were found in the code"]


def check_errors(site):
    """docs/reference/errors.md has a section for each code, and no other."""
    declared = re.search(r"enum class Code[^{]*\{(.*?)\};", (site.source / "core/error.hpp").read_text(encoding="utf-8"), re.DOTALL)[1]
    codes = re.findall(r"^\s*(\w+),", re.sub(r"//.*", "", declared), re.MULTILINE)
    text = (site.source / "docs/reference/errors.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    faults = [] if list(sections) == codes else [f"errors.md: has sections {list(sections)}, expected the codes {codes}"]
    for code, section in sections.items():
        faults += [f"errors.md: {code}: lacks '{part}'" for part in ("**What happened:**", "**What to do:**") if part not in section]
    c_codes = re.findall(r"\b(SINEW_\w+) = \d+", re.search(r"enum sinew_status.*?\}", (site.source / "c/types.h").read_text(), re.DOTALL)[0])
    classes = re.findall(r"^class (\w+)\(Error", (site.source / "python/sinew/_errors.py").read_text(encoding="utf-8"), re.MULTILINE)
    return faults + site.lacks("reference/errors.html", {*c_codes, *classes} - {"RankFailed"})


def check_offline(site):
    """No page fetches anything from elsewhere. A link that a reader may follow is no fetch."""
    fetch = re.compile(r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"?(?:https?:)?//[^\"> ]*|<link\b[^>]*\bhref=\"?(?:https?:)?//[^\"> ]*")
    faults = []
    for page in (site.work / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        faults += [f"{page.name}: fetches {found}" for found in fetch.findall(text)]
        if 'class="mermaid"' in text:
            faults.append(f"{page.name}: the script of the theme fetches another one to draw this page")
    for sheet in (site.work / "site").rglob("*.css"):
        faults += [f"{sheet.name}: fetches {found}" for found in re.findall(r"url\(\"?https?://[^)]*", sheet.read_text(encoding="utf-8"))]
    return faults


def control(site):
    """Plants a name that is on no page, and a link that leads nowhere. The checks must find both."""
    faults = [] if site.lacks("reference/c.html", {"sinew_not_there"}) else ["a name that is on no page was not missed"]
    pages = site.work / "control"
    pages.mkdir()
    (pages / "index.md").write_text("# Start\n\n[a heading that is not there](other.md#nowhere)\n", encoding="utf-8")
    (pages / "other.md").write_text("# Other\n", encoding="utf-8")
    config = site.work / "control.yml"
    base = site.source / "cmake/docs/mkdocs.yml"
    config.write_text(f"INHERIT: {base}\ndocs_dir: {pages}\nhooks: []\nnav: [index.md, other.md]\ntheme: {{custom_dir: {base.parent}/theme}}\n", encoding="utf-8")
    printed, ended_well = site.make(config, site.work / "control_site")
    if ended_well or "nowhere" not in printed:
        faults.append(f"a link to a heading that is not there was accepted: {printed}")
    return faults


def main():
    source, build, work = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
    site = Site(source, build, work)
    if not site.python.exists() or subprocess.run([site.python, "-c", "import material, clang"], capture_output=True, check=False).returncode:
        print(f"skipped: {site.python} has no mkdocs-material and clang; ./run docs installs them")
        raise SystemExit(77)
    if not pathlib.Path("/usr/lib/llvm-16/lib/libclang-16.so.1").exists():
        print("skipped: the Debian package libclang1-16 is not installed; ./run docs installs it")
        raise SystemExit(77)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    printed, ended_well = site.make(source / "cmake/docs/mkdocs.yml", work / "site")
    if not ended_well:
        print(printed)
        raise SystemExit("the site cannot be made")
    faults = []
    for check in (check_headers, check_c_symbols, check_tools, check_variables, check_errors, check_offline, control):
        faults += check(site)
    for fault in faults[:100]:
        print(fault)
    print(f"{len(faults)} faults")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
