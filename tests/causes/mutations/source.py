"""Python files as text and syntax tree, and edits of them that keep the number of lines."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

CAUSES = Path(__file__).parents[1]
# The code of programs: what they call, the modules of each topic, and their scripts.
SHARED = ("architectures.py", "models.py", "training.py")


class Edit(NamedTuple):
    """Replace the text from `start` to `end`, in characters."""

    start: int
    end: int
    text: str


class Source:
    def __init__(self, path: Path, text: str) -> None:
        self.path = path  # relative to tests/causes
        self.text = text
        self.tree = ast.parse(text)
        lines = text.splitlines(keepends=True)
        self.lines = [line.encode() for line in lines]
        self.begins = [0]
        for line in lines:
            self.begins.append(self.begins[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """The position of a place that ast gives, whose columns count bytes."""
        return self.begins[line - 1] + len(self.lines[line - 1][:column].decode())

    def start(self, node: ast.AST) -> int:
        return self.at(node.lineno, node.col_offset)

    def end(self, node: ast.AST) -> int:
        return self.at(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.AST) -> str:
        return self.text[self.start(node) : self.end(node)]

    def replace(self, node: ast.AST, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def tokens(self) -> Iterator[tuple[tokenize.TokenInfo, int, int]]:
        """Each token, with the positions where it begins and ends."""
        for each in tokenize.generate_tokens(io.StringIO(self.text).readline):
            (line, column), (last, end) = each.start, each.end
            if line <= len(self.lines):
                yield each, self.begins[line - 1] + column, self.begins[last - 1] + end

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes outside f-strings, where positions are wrong before Python 3.12."""
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            if not isinstance(node, ast.JoinedStr):
                yield node
                pending.extend(ast.iter_child_nodes(node))

    @functools.cached_property
    def methods(self) -> set[int]:
        """The functions that are methods of a class, by id()."""
        classes = (node for node in self.nodes() if isinstance(node, ast.ClassDef))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        return {id(each) for node in classes for each in node.body if isinstance(each, functions)}

    @functools.cached_property
    def statements(self) -> list[tuple[int, int]]:
        """First and last line of each statement; of a compound statement, only of its header."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
                found.append((node.lineno, max(node.lineno, last)))
        return found

    def statement(self, line: int) -> int:
        """The first line of the smallest statement that has this line."""
        around = [(last - first, first) for first, last in self.statements if first <= line <= last]
        return min(around)[1] if around else line


def programs_text() -> dict[Path, Source]:
    """All code of programs, by its path in tests/causes."""
    paths = [CAUSES / name for name in SHARED]
    paths += [each for each in CAUSES.glob("*/*.py") if each.parent.name != "mutations"]
    paths += CAUSES.glob("*/scripts/*.py")
    names = sorted(path.relative_to(CAUSES) for path in paths)
    return {name: Source(name, (CAUSES / name).read_text()) for name in names}


def is_script(path: Path) -> bool:
    return path.parent.name == "scripts"


def applied(source: Source, edits: Iterable[Edit]) -> str:
    """The text after edits, of which those inside others are left out."""
    text, parts, done = source.text, [], 0
    for edit in sorted(set(edits), key=lambda each: (each.start, -each.end)):
        if edit.start >= done:
            parts += [text[done : edit.start], edit.text]
            done = edit.end
    return "".join([*parts, text[done:]])
