"""Writes the metadata that pip writes, for packages that pip does not install.

dist_info.py FOLDER VERSION: makes FOLDER/sinew-VERSION.dist-info. Python reads the version there, and PyTorch finds the
backend by it.
"""

import pathlib
import sys
import tomllib

folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
project = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
into = folder / f"sinew-{version}.dist-info"
into.mkdir(parents=True)
(into / "METADATA").write_text(
    f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\nSummary: {project['description']}\n"
)
groups = project.get("entry-points", {})
(into / "entry_points.txt").write_text(
    "".join(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in groups.items())
)
