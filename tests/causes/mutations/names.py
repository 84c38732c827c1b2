"""Functions, classes, variables and attributes of programs get other names.

A name is kept if renaming could change what a program does: names of torch and of Python, keywords
of calls, and names that strings and f-strings contain.
"""

from __future__ import annotations

import ast
import builtins
import collections
import keyword
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.causes.mutations.source import Edit, Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
STATE = {"weight", "bias", "grad", "state", "param_groups", "defaults", "training"}


def of_api() -> set[str]:
    """Attributes that have a meaning of their own."""
    import torch
    from torch import nn

    owners = [torch, nn, nn.functional, nn.Module, nn.Sequential, nn.BatchNorm2d, nn.Conv2d]
    owners += [nn.MultiheadAttention(4, 1), nn.LSTM(1, 1), torch.Tensor]
    owners += [torch.autograd, torch.autograd.Function, torch.optim.Optimizer, torch.optim.LBFGS]
    owners += [torch.utils.data.DataLoader, torch.utils.data.Dataset, torch.utils.data.Sampler]
    owners += [dict, list, set, str, tuple, collections.deque, BaseException]
    found = {name for each in owners for name in dir(each)}
    return found | STATE | set(dir(builtins)) | set(keyword.kwlist)


def in_class_bodies(source: Source) -> set[int]:
    """Names in assignments of class bodies, which are attributes."""
    return {
        id(target)
        for node in source.nodes()
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.Assign | ast.AnnAssign)
        for target in ast.walk(each)
    }


def docstrings(source: Source) -> set[int]:
    nodes = (node for node in source.nodes() if isinstance(node, ast.Expr))
    return {id(node.value) for node in nodes}


def bound(source: Source) -> Iterator[str]:
    """Names that the file defines, other than imports and attributes of classes."""
    skipped = in_class_bodies(source)
    for node in source.nodes():
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ClassDef) or (
            isinstance(node, Function) and id(node) not in source.methods
        ):
            yield node.name


def own_attributes(source: Source) -> Iterator[str]:
    """Attributes that are assigned through self, and methods."""
    for node in source.nodes():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr
        elif isinstance(node, Function) and id(node) in source.methods:
            yield node.name


def kept(sources: dict[Path, Source]) -> set[str]:
    """Names that keep their text everywhere."""
    names = {"self", "ctx", "cls", "main", "__name__", "ARCHITECTURES", "WIDE"}
    for source in sources.values():
        skipped = docstrings(source)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                is_own = (getattr(node, "module", "") or "").startswith("tests.causes.")
                home = Path(*(getattr(node, "module", "") or ".").split(".")[2:])
                if not is_own or home.with_suffix(".py") not in sources:
                    names |= {(each.asname or each.name).split(".")[0] for each in node.names}
            elif isinstance(node, ast.keyword) and node.arg:
                names.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= set() if id(node) in skipped else set(re.findall(r"\w+", node.value))
            elif isinstance(node, ast.JoinedStr):
                names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return names


def of_class_bodies(source: Source) -> set[str]:
    skipped = in_class_bodies(source)
    return {
        node.id for node in source.nodes() if id(node) in skipped and isinstance(node, ast.Name)
    }


def renamed(sources: dict[Path, Source]) -> tuple[dict[str, str], dict[str, str]]:
    """The new names of variables, functions and classes; and of attributes and methods."""
    fixed = kept(sources)
    variables = sorted({name for each in sources.values() for name in bound(each)} - fixed)
    own = {name for each in sources.values() for name in own_attributes(each)}
    in_classes = {name for each in sources.values() for name in of_class_bodies(each)}
    attributes = [name for name in sorted(own - fixed - in_classes - of_api()) if name[:2] != "__"]
    plain = [name for name in variables if name not in dir(builtins) and name[:2] != "__"]
    return (
        {name: new_name(name, number) for number, name in enumerate(plain)},
        {name: f"part{number}" for number, name in enumerate(attributes)},
    )


def new_name(name: str, number: int) -> str:
    if name.isupper():
        return f"CONSTANT_{number}"
    return f"Kind{number}" if name[0].isupper() else f"name{number}"


def word_edits(source: Source, variables: dict[str, str], attributes: dict[str, str]) -> list[Edit]:
    """Edits of the tokens that are names in the syntax tree."""
    names: dict[int, str] = {}  # position: new text
    skipped = in_class_bodies(source)
    for node in source.nodes():
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Name | ast.arg):
            names[source.start(node)] = variables.get(getattr(node, "id", None) or node.arg, "")
        elif isinstance(node, ast.Attribute):
            names[source.end(node) - len(node.attr)] = attributes.get(node.attr, "")
        elif isinstance(node, ast.ExceptHandler) and node.name:
            begin = source.end(node.type) if node.type else source.start(node)
            names[source.text.index(node.name, begin)] = variables.get(node.name, "")
        elif isinstance(node, Function | ast.ClassDef):
            begin = source.text.index(node.name, source.start(node) + 4)
            table = attributes if id(node) in source.methods else variables
            names[begin] = table.get(node.name, "")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.causes."):
            for each in node.names:
                new = variables.get(each.name, "")
                names[source.start(each)] = (
                    f"{new} as {each.asname}" if new and each.asname else new
                )
        elif isinstance(node, ast.Global | ast.Nonlocal):
            begin = source.start(node)
            for each in node.names:
                begin = source.text.index(each, begin + 1)
                names[begin] = variables.get(each, "")
    return [
        Edit(start, end, names[start])
        for token, start, end in source.tokens()
        if token.type == tokenize.NAME and names.get(start)
    ]


def edits(sources: dict[Path, Source]) -> dict[Path, list[Edit]]:
    variables, attributes = renamed(sources)
    return {path: word_edits(source, variables, attributes) for path, source in sources.items()}
