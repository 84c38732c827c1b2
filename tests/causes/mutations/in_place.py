"""Operators in place instead of those that return a new tensor, and the reverse."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.causes.mutations.source import Edit, Source

LAYERS = {"ReLU", "LeakyReLU", "SiLU", "Hardswish", "ELU", "ReLU6", "Hardtanh", "Mish", "Dropout"}
# Functions of one tensor whose backward needs at most their result.
OF_RESULT = {"relu", "tanh", "sigmoid", "exp", "sqrt"}
# Methods whose backward does not need the tensor itself.
METHODS = {*OF_RESULT, "add", "sub", "neg", "masked_fill", "clamp_min"}
FILLS = {"zeros": "zero_()", "ones": "fill_(1)"}


def of_layer(source: Source, node: ast.Call) -> Edit | None:
    """nn.ReLU() and nn.ReLU(inplace=True)."""
    named = {each.arg: each for each in node.keywords}
    if "inplace" in named:
        return source.replace(named["inplace"], "inplace=False")
    end = source.end(node) - 1
    return Edit(end, end, ", inplace=True" if node.args or node.keywords else "inplace=True")


def of_function(source: Source, node: ast.Call) -> Edit | None:
    """torch.relu(f(x)) and f(x).relu_(), of a result that has no name."""
    if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Call):
        return Edit(source.end(node.func), source.end(node.func), "_")
    return None


def of_method(source: Source, node: ast.Call) -> Edit | None:
    name, end = node.func.attr, source.end(node.func)
    if name in METHODS and isinstance(node.func.value, ast.Call | ast.BinOp):
        return Edit(end, end, "_")
    if name.removesuffix("_") in OF_RESULT and name.endswith("_"):
        return Edit(end - 1, end, "")
    return None


def of_call(source: Source, node: ast.Call) -> Edit | None:
    if not isinstance(node.func, ast.Attribute):
        return None
    owner, name = ast.unparse(node.func.value), node.func.attr
    if owner in ("nn", "torch.nn"):
        return of_layer(source, node) if name in LAYERS else None
    if owner in ("torch", "functional", "F", "torch.nn.functional"):
        if name in OF_RESULT and owner == "torch":
            return of_function(source, node)
        if name == "relu" and owner != "torch":
            return of_function(source, node)
        base = name.removesuffix("_like")
        if base in FILLS and owner == "torch":
            new = source.of(node).replace(f"torch.{base}", "torch.empty", 1)
            return source.replace(node, f"{new}.{FILLS[base]}")
        return None
    return of_method(source, node)


def of_update(source: Source, node: ast.stmt) -> Edit | None:
    """x = x + y and x += y."""
    if isinstance(node, ast.Assign):
        value = node.value
        is_update = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub)
        if not is_update or len(node.targets) != 1:
            return None
        target = ast.unparse(node.targets[0])
        if not isinstance(node.targets[0], ast.Name) or ast.unparse(value.left) != target:
            return None
        if "(" in source.text[source.end(node.targets[0]) : source.start(value.left)]:
            return None
        sign = "+=" if isinstance(value.op, ast.Add) else "-="
        between = source.text[source.end(value.left) : source.start(value.right)]
        return Edit(
            source.start(node), source.start(value.right), f"{target} {sign} {between.strip(' +-')}"
        )
    target = ast.unparse(node.target)
    sign = "+" if isinstance(node.op, ast.Add) else "-"
    return Edit(
        source.start(node),
        source.end(node),
        f"{target} = {target} {sign} ({source.of(node.value)})",
    )


def edits(sources: dict[Path, Source], updates: bool) -> dict[Path, list[Edit]]:
    """With `updates`, also those of named tensors, which some programs still need."""
    made: dict[Path, list[Edit]] = {}
    for path, source in sources.items():
        found: list[Edit | None] = []
        for node in source.nodes():
            if isinstance(node, ast.Call):
                found.append(of_call(source, node))
            elif updates and (
                isinstance(node, ast.Assign)
                or (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub))
            ):
                found.append(of_update(source, node))
        made[path] = [each for each in found if each]
    return made
