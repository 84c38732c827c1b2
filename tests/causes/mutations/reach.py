"""Which lines of tests/causes a program can run: its function and what that refers to."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.causes.mutations.source import Source, is_script

Place = tuple[Path, str]
Lines = dict[Path, list[tuple[int, int]]]
ARCHITECTURES = Path("architectures.py")
# A program uses one architecture of these tables.
TABLES = ((ARCHITECTURES, "ARCHITECTURES"), (ARCHITECTURES, "WIDE"))


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])


class Reach:
    def __init__(self, sources: dict[Path, Source]) -> None:
        self.sources = sources
        self.defined: dict[Place, ast.stmt] = {}
        self.imported: dict[Place, Place] = {}
        for path, source in sources.items():
            for node in source.tree.body:
                self._define(path, node)

    def _define(self, path: Path, node: ast.stmt) -> None:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.causes"):
            home = Path(*node.module.split(".")[2:]).with_suffix(".py")
            for each in node.names:
                self.imported[path, each.asname or each.name] = (home, each.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.defined[path, node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in names_in(target):
                    self.defined[path, name] = node

    def _home(self, place: Place) -> Place | None:
        place = self.imported.get(place, place)
        return place if place in self.defined else None

    def _architecture(self, name: str) -> list[ast.AST]:
        """What architectures.py says about one architecture, in add() and WIDE."""
        found: list[ast.AST] = []
        for node in ast.walk(self.sources[ARCHITECTURES].tree):
            if isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "") == "add":
                found += [node] if getattr(node.args[0], "value", None) == name else []
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                found += [value for key, value in pairs if getattr(key, "value", None) == name]
        return found

    def lines(self, program: str) -> Lines:
        """First and last lines of the code of a program, by file."""
        group, _, function = program.partition("/")
        if group == "scripts":
            (path,) = (each for each in self.sources if is_script(each) and each.stem == function)
            return {path: [(1, len(self.sources[path].lines))]}
        (start,) = {
            place
            for place, node in self.defined.items()
            if place[1] == function and is_registered(node, group)
        }
        found: Lines = {}
        seen, pending = {start, *TABLES}, [start]
        nodes = [(ARCHITECTURES, node) for node in self._architecture(group)]
        for path, node in nodes:
            found.setdefault(path, []).append((node.lineno, node.end_lineno))
        while pending or nodes:
            if pending:
                path, name = pending.pop()
                node = self.defined[path, name]
                found.setdefault(path, []).append((first_line(node), node.end_lineno))
            else:
                path, node = nodes.pop()
            for used in names_in(node):
                place = self._home((path, used))
                if place and place not in seen:
                    seen.add(place)
                    pending.append(place)
        return found


def is_registered(node: ast.stmt, group: str) -> bool:
    """Whether a decorator registers the function under this group, or under any of a variable."""
    for each in getattr(node, "decorator_list", []):
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") in ("program", "standalone"):
            names = {getattr(word, "value", None) for word in each.args}
            if group in names or any(isinstance(word, ast.Starred) for word in each.args):
                return True
    return False
