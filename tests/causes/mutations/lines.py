"""Calls over several lines, as formatters write long ones."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path

from tests.causes.mutations.source import Edit, Source


def call_parentheses(source: Source) -> dict[int, ast.Call]:
    """Calls with arguments, by the position of their closing parenthesis."""
    calls = (node for node in source.nodes() if isinstance(node, ast.Call))
    return {source.end(node) - 1: node for node in calls if node.args or node.keywords}


def breaks(source: Source) -> list[int]:
    """Positions of new line breaks: inside the parentheses of calls, and after their commas."""
    closing, opened, found = call_parentheses(source), [], []
    for token, start, end in source.tokens():
        if token.type != tokenize.OP:
            continue
        if token.string in "([{":
            opened.append([start, []])
        elif token.string == "," and opened:
            opened[-1][1].append(end)
        elif token.string in ")]}":
            begin, commas = opened.pop()
            call = closing.get(start)
            if call is not None and source.text[begin] == "(" and source.end(call.func) <= begin:
                found += [begin + 1, start, *(each for each in commas if each != start)]
    return sorted(set(found))


def edits(sources: dict[Path, Source]) -> dict[Path, list[Edit]]:
    return {path: [Edit(at, at, "\n") for at in breaks(source)] for path, source in sources.items()}


def original_lines(source: Source, made: list[Edit]) -> list[int]:
    """For each line of the new text, its line in the original."""
    lines, line, edits = [], 1, sorted(each.start for each in made)
    breaks_at = set(edits)
    for position, character in enumerate(source.text):
        if position in breaks_at:
            lines.append(line)
        if character == "\n":
            lines.append(line)
            line += 1
    return lines
