"""Pages of the Python package and of its backend for PyTorch, made from its sources and from the extension's stub."""

import ast
import re

from api_pages import Page
from api_text import cell, in_cell, laid_out, markdown
from declarations import ROOT

PACKAGE = ROOT / "python/sinew"
# The modules whose classes and functions the package shows, after the extension.
MODULES = ["_core.pyi", "_works.py", "_run.py", "_objects.py", "_errors.py", "_types.py"]


def parsed(name):
    return ast.parse((PACKAGE / name).read_text(encoding="utf-8"))


def public_names():
    """The names in __all__, and those of the package that are in their signatures."""
    for node in parsed("__init__.py").body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return [*ast.literal_eval(node.value), "Objects", "Array", "DType", "Op", "Determinism", "Codec"]
    raise SystemExit("python/sinew/__init__.py: expected a list __all__")


def comment_of(node):
    return ast.get_docstring(node) or ""


def signature(node, name=None):
    """`name`: shown instead of the function's own. The parameter self is left out."""
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^self(?:, /)?(?:, )?", "", arguments)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and name is None else ""
    return laid_out(f"{name or node.name}({arguments}){returns}")


def is_property(node):
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def is_setter(node):
    return any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in node.decorator_list)


def write_class(page, node):
    page.heading(2, f"class `{node.name}`", node.name)
    bases = [ast.unparse(each) for each in node.bases if ast.unparse(each) != "Protocol"]
    page.code(f"class {node.name}({', '.join(bases)})" if bases else f"class {node.name}")
    page.lines.append(markdown(comment_of(node)))
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    for each in functions:
        if each.name == "__init__":
            page.code(signature(each, node.name))
            page.lines.append(markdown(comment_of(each)))
    settable = {each.name for each in functions if is_setter(each)}
    rows = [
        [in_cell(each.target.id), in_cell(ast.unparse(each.annotation)), "", ""]
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    ]
    for each in functions:
        if is_property(each):
            kind = in_cell(ast.unparse(each.returns))
            rows.append([in_cell(each.name), kind, "yes" if each.name in settable else "", cell(comment_of(each))])
    if rows:
        page.table(["attribute", "type", "can be set", "meaning"], rows)
    for each in functions:
        if each.name.startswith("_") or is_property(each) or is_setter(each):
            continue
        page.heading(3, f"`{each.name}`", f"{node.name}-{each.name}")
        page.code(signature(each))
        page.lines.append(markdown(comment_of(each)))


def python():
    page = Page("python")
    page.lines.append(
        "# Python\n\nThe package `sinew`. [Python](../python.md) is the guide. `python -m sinew.run`, `python -m sinew.info` and "
        "`python -m sinew.bench` are the [tools](tools/index.md) `sinew-run`, `sinew-info` and `sinew-bench`.\n"
    )
    wanted = public_names()
    for module in MODULES:
        for node in parsed(module).body:
            name = getattr(node, "name", None) or (isinstance(node, ast.AnnAssign) and node.target.id)
            if name not in wanted:
                continue
            wanted.remove(name)
            if isinstance(node, ast.ClassDef):
                write_class(page, node)
            else:
                page.heading(2, f"`{name}`", name)
                page.code(signature(node) if isinstance(node, ast.FunctionDef) else ast.unparse(node))
                page.lines.append(markdown(comment_of(node)) if isinstance(node, ast.FunctionDef) else "")
    if wanted:
        raise SystemExit(f"python/sinew: these public names are in none of {', '.join(MODULES)}: {', '.join(wanted)}")
    return {"reference/python.md": page.text()}


def torch_operators():
    """The schemas in TORCH_LIBRARY(sinew, m)."""
    source = (PACKAGE / "torch/csrc/inference_op.cpp").read_text(encoding="utf-8")
    library = source[source.index("TORCH_LIBRARY(sinew, m)") :].partition("\n}\n")[0]
    return ["".join(re.findall(r'"([^"]*)"', call)) for call in library.split("m.def(")[1:]]


def torch():
    """docs/reference/torch.md says what the backend is. This adds the schemas of its operators."""
    rows = [f"torch.ops.sinew.{schema}" for schema in torch_operators()]
    return "\n".join(["```text", *rows, "```"])
