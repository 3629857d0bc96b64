#!/usr/bin/env python3
"""Checks the includes between the folders of a layer against cmake/lint/rooms.txt, and draws that table.

    rooms.py check        prints each include that the table does not allow or that an editor would not find, and the
                          faults of the table
    rooms.py draw         writes the pictures into docs/design.md, between the lines that name them
"""

import collections
import functools
import graphlib
import os
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path("cmake/lint/rooms.txt")
DESIGN = pathlib.Path("docs/design.md")
EDITORS = pathlib.Path("compile_flags.txt")  # what clangd and others read
GENERATED = {"core/contract_hash.hpp"}
MOST_CONCEPTS = 16
BY_PATH = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*/[^"]*)\.hpp"', re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*<sinew/([^>]+)>', re.MULTILINE)


class Table:
    """The rows of rooms.txt."""

    def __init__(self):
        self.may = {}  # layer: {room: rooms that it may include}
        self.front = {}  # header in a layer's own folder, without its ending: its room
        self.crowded = {}  # folder: how many concepts it still shows
        for number, line in enumerate(TABLE.read_text(encoding="utf-8").splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            kind, name, rest = words[0], words[1], words[2:]
            layer, _, room = name.partition("/")
            if kind == "room":
                self.may.setdefault(layer, {})[room] = rest
            elif kind == "front":
                self.front.update({f"{layer}/{header}": room for header in rest})
            elif kind == "crowded":
                self.crowded[name] = int(rest[0])
            else:
                raise SystemExit(f"{TABLE}:{number}: expected room, front or crowded, found '{kind}'")

    def room_of(self, unit):
        """`unit`: a header or source of a layer, without its ending. None: in the layer's own folder, and in no row."""
        layer, _, rest = unit.partition("/")
        if "/" not in rest:
            return self.front.get(unit)
        return rest.rpartition("/")[0]


def sources(folder):
    # Files that git does not know yet count, too; outside of a clone, all do.
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    names = listed.stdout.split() if listed.returncode == 0 else map(str, pathlib.Path(folder).rglob("*"))
    paths = [pathlib.Path(name) for name in names if "build/" not in name]
    return [path for path in paths if path.suffix in (".hpp", ".cpp") and path.exists() and not path.is_symlink()]


def units_of(layer):
    """{header or source without its ending: its files}"""
    units = collections.defaultdict(list)
    for path in sources(layer):
        units[str(path.with_suffix(""))].append(path)
    return units


def unresolved():
    """Includes that an editor does not find in a fresh clone."""
    if not EDITORS.exists():
        return
    roots = [pathlib.Path(line[2:]) for line in EDITORS.read_text(encoding="utf-8").split() if line.startswith("-I")]
    for path in sources("."):
        for match in INCLUDE.finditer(path.read_text(encoding="utf-8")):
            if match[1] not in GENERATED and not any((root / "sinew" / match[1]).exists() for root in roots):
                yield f"{path}: no include root of {EDITORS} has sinew/{match[1]}"


@functools.cache
def unit_of(include):
    """The header without its ending that <sinew/include> names: cmake/roots leads from include paths to folders."""
    for root in pathlib.Path("cmake/roots").glob("*"):
        header = root / "sinew" / include
        if header.exists():
            return str(header.resolve().relative_to(pathlib.Path.cwd()).with_suffix(""))
    return include.removesuffix(".hpp")


def faults_of_layer(table, layer):
    may, used, faults = table.may[layer], set(), []
    units = units_of(layer)
    for unit, paths in sorted(units.items()):
        room = table.room_of(unit)
        if room is None or room not in may:
            faults.append(f"{paths[0]}: belongs to no room of {TABLE}; put it into one, or add a row")
            continue
        for path in paths:
            for match in BY_PATH.finditer(path.read_text(encoding="utf-8")):
                other = os.path.normpath(path.parent / match[1])
                if other in units:
                    faults.append(f"{path}: includes another room by a path; write <sinew/{other}.hpp>")
            for match in INCLUDE.finditer(path.read_text(encoding="utf-8")):
                other = unit_of(match[1])
                if other not in units:
                    continue
                to = table.room_of(other)
                if to is None or to == room:
                    continue
                used.add((room, to))
                if to not in may[room]:
                    faults.append(
                        f"{path}: includes {match[1]}, but {layer}/{room} may include only: {' '.join(may[room]) or 'nothing'}"
                    )
    for room, others in may.items():
        for to in others:
            if to not in may:
                faults.append(f"{TABLE}: {layer}/{room} may include {to}, which is no room of {layer}")
            elif (room, to) not in used:
                faults.append(f"{TABLE}: {layer}/{room} may include {to}, but nothing there does: remove it")
    try:
        graphlib.TopologicalSorter(may).prepare()
    except graphlib.CycleError as circle:
        faults.append(f"{TABLE}: the rooms of {layer} include each other in a circle: {' -> '.join(reversed(circle.args[1]))}")
    return faults


def faults_of_folders(table, layer):
    shown = collections.Counter(unit.rpartition("/")[0] for unit in units_of(layer))
    for folder, count in sorted(shown.items()):
        most = table.crowded.get(folder, MOST_CONCEPTS)
        if count > most:
            yield f"{folder}: shows {count} headers and sources of their own, {most} are the limit; make rooms"
        if folder in table.crowded and count < most:
            yield f"{TABLE}: {folder} shows {count} by now, so its row may say no more"


def reduced(may):
    """The arrows that no way around says already."""

    def reach(room, without):
        seen, todo = set(), [to for to in may[room] if to != without]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo.extend(may[at])
        return seen

    return [(room, to) for room, others in may.items() for to in others if to not in reach(room, to)]


def picture(layer, may):
    lines = ["```mermaid", "graph TD"]
    lines += [f"  {room.replace('/', '_')}[{room}]" for room in may if "/" in room]
    lines += [f"  {room.replace('/', '_')} --> {to.replace('/', '_')}" for room, to in reduced(may)]
    lone = {room for room in may} - {room for arrow in reduced(may) for room in arrow}
    lines += [f"  {room}" for room in may if room in lone]
    return "\n".join([*lines, "```"])


def drawn(table, text):
    for layer, may in table.may.items():
        place = re.compile(rf"(<!-- rooms of {layer} -->\n)(.*?)(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise SystemExit(f"{DESIGN}: there is no line '<!-- rooms of {layer} -->'")
        text = place.sub(lambda found: found[1] + picture(layer, may) + "\n" + found[3], text)
    return text


def main():
    table = Table()
    if sys.argv[1:] == ["draw"]:
        DESIGN.write_text(drawn(table, DESIGN.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    if sys.argv[1:] != ["check"]:
        raise SystemExit(__doc__)
    faults = [fault for layer in table.may for fault in (*faults_of_layer(table, layer), *faults_of_folders(table, layer))]
    faults += unresolved()
    if not faults and DESIGN.exists():
        text = DESIGN.read_text(encoding="utf-8")
        if drawn(table, text) != text:
            faults.append(f"{DESIGN}: its pictures are not those of {TABLE}; ./run format draws them")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
