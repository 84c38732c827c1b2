"""Sizes that are no multiples of 512 bytes: every size in the text of a program grows a little.

Equal numbers stay equal. Numbers of repetitions do not change.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.causes.mutations.source import Edit, Source

SMALLEST = 16  # smaller numbers are heads, kernels and layers
SMALLEST_BATCH = 5
FACTORIES = ("rand", "randn", "randint", "zeros", "ones", "empty", "full", "arange")


def repetitions(source: Source) -> set[int]:
    """Constants that are numbers of repetitions, directly or as a parameter."""
    found = set()
    for node in source.nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range":
            found |= {id(each) for word in node.args for each in ast.walk(word)}
    for function in source.nodes():
        if not isinstance(function, ast.FunctionDef):
            continue
        counted = {
            each.id
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "range"
            for word in node.args
            for each in ast.walk(word)
            if isinstance(each, ast.Name)
        }
        arguments = function.args.args
        for argument, default in zip(
            arguments[len(arguments) - len(function.args.defaults) :],
            function.args.defaults,
            strict=True,
        ):
            if argument.arg in counted:
                found.add(id(default))
    return found


def is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def is_size(node: ast.AST) -> bool:
    return is_constant(node) and node.value >= SMALLEST


def is_no_size(node: ast.AST) -> bool:
    return (isinstance(node, ast.keyword) and node.arg in ("seed", "maxlen", "lr")) or (
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "manual_seed"
    )


def batches(source: Source) -> list[ast.Constant]:
    """First dimensions of new tensors."""
    found = []
    for node in source.nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in FACTORIES:
            shapes = [each for each in node.args if isinstance(each, ast.Tuple | ast.List)]
            first = (shapes[0].elts if shapes else node.args)[:1]
            found += [each for each in first if is_constant(each) and each.value >= SMALLEST_BATCH]
    return found


def edits(sources: dict[Path, Source], more: int, batch: int = 0) -> dict[Path, list[Edit]]:
    """Add `more` to every size, or `batch` to those that are a first dimension."""
    made: dict[Path, list[Edit]] = {}
    for path, source in sources.items():
        firsts = batches(source) if batch else []
        made[path] = [source.replace(each, str(each.value + batch)) for each in firsts]
        skipped = repetitions(source) | {id(each) for each in firsts}
        for node in source.nodes():
            if id(node) in skipped:
                continue
            is_shift = isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift | ast.Pow)
            if is_shift or is_no_size(node):
                skipped |= {id(each) for each in ast.walk(node)}
            if is_shift and is_constant(node.left) and is_constant(node.right):
                made[path].append(source.replace(node, f"({source.of(node)} + {more})"))
            elif not is_shift and is_size(node):
                made[path].append(source.replace(node, str(node.value + more)))
    return made
