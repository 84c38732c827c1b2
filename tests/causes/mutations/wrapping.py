"""Models inside another module: their layers get a prefix, and their root another class."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.causes.mutations.source import Edit, Source

IMPORT = "from tests.causes.mutations.wrapped import Wrapped; "
NOT_CALLED = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Module")


def module_classes(sources: dict[Path, Source]) -> set[str]:
    """Classes of programs that are modules, directly or through another class."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for source in sources.values()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"Module"}
    for _ in range(4):
        found |= {name for name, above in bases.items() if any(is_module(x, found) for x in above)}
    return found - {"Module"}


def is_module(name: str, known: set[str]) -> bool:
    from torch import nn

    of_torch = getattr(nn, name, None)
    return name in known or (isinstance(of_torch, type) and issubclass(of_torch, nn.Module))


def is_model(call: ast.Call, classes: set[str]) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in classes
    if ast.unparse(call.func).startswith(("nn.", "torch.nn.")):
        name = call.func.attr
        return is_module(name, set()) and name not in NOT_CALLED and "Loss" not in name
    return False


def models(node: ast.AST, classes: set[str]) -> list[ast.Call]:
    """Calls that build a model, other than those that build a part of one."""
    if isinstance(node, ast.ClassDef | ast.JoinedStr) or (
        isinstance(node, ast.Call) and ast.unparse(node.func).endswith(NOT_CALLED)
    ):
        return []
    if isinstance(node, ast.Call) and is_model(node, classes):
        return [node]
    return [each for below in ast.iter_child_nodes(node) for each in models(below, classes)]


def after_docstring(source: Source) -> int:
    """Where an import may begin, before the first import but after those from __future__."""
    for node in source.tree.body:
        if isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and node.module != "__future__"
        ):
            return source.start(node)
    raise ValueError(source.path)


def edits(sources: dict[Path, Source]) -> dict[Path, list[Edit]]:
    classes = module_classes(sources)
    made = {}
    for path, source in sources.items():
        found = models(source.tree, classes)
        if path.name == "training.py":  # which builds the model of an architecture
            calls = (node for node in source.nodes() if isinstance(node, ast.Call))
            found = [each for each in calls if source.of(each) == "architecture.model()"]
        made[path] = [source.replace(each, f"Wrapped({source.of(each)})") for each in found]
        if found:
            at = after_docstring(source)
            made[path].append(Edit(at, at, IMPORT))
    return made
