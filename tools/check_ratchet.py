#!/usr/bin/env python3
"""Counts undesired things in the code; the counts below may only decrease. Tests run this file.

More than allowed: fix the code. Fewer: lower the number here, in the same commit. Raising a number
is a decision that the reviewer must see, with its reason in the commit message.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ALLOWED = {
    "function too long": 0,
    "TODO or FIXME": 0,
    "NOLINT": 1,
    "type: ignore or noqa": 0,
    "TypeScript any": 0,
}

# Only functions have a size limit. A file holds one topic, whatever its length.
MAX_FUNCTION_LINES = 100

PATTERNS = {
    "TODO or FIXME": re.compile(r"\b(TODO|FIXME)\b"),
    "NOLINT": re.compile(r"\bNOLINT"),
    "type: ignore or noqa": re.compile(r"#\s*(type:\s*ignore|noqa)"),
    "TypeScript any": re.compile(r"(:|\bas)\s+any\b"),
}
COUNTED_IN = {  # the file types in which each pattern is counted
    "TODO or FIXME": {".h", ".cc", ".def", ".ts", ".py", ".cmake"},
    "NOLINT": {".h", ".cc", ".def"},
    "type: ignore or noqa": {".py"},
    "TypeScript any": {".ts", ".tsx"},
}

TOPS = (
    "src",
    "include",
    "adapters",
    "python",
    "ui/src",
    "tests",
    "bench",
    "examples",
    "tools",
    "cmake",
    "scripts",
)
NOT_OURS = {"node_modules", "build", "corpus", "samples", "golden", "compat", "__pycache__"}
THESE = {"check_ratchet.py", "test_check_ratchet.py"}  # they contain the patterns that they count


def long_functions_cc(lines: list[str]) -> Iterator[int]:
    """Return the first lines (from 1) of long functions.

    Relies on clang-format: code at column 0 begins a function, a bare `}` there ends it.
    """
    start = 0
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "}":
            if number - start >= MAX_FUNCTION_LINES:
                yield start
            start = number
        elif line and (line[0].isalpha() or line[0] == "_"):
            start = number


def long_functions_py(text: str) -> Iterator[int]:
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES:
            yield node.lineno


def findings_in(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """Return pairs of (what is counted, where) in one file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines()
    starts: Iterator[int] = iter(())
    if path.suffix in {".h", ".cc"}:
        starts = long_functions_cc(lines)
    elif path.suffix == ".py":
        starts = long_functions_py(text)
    for start in starts:
        yield "function too long", f"{name}:{start}: more than {MAX_FUNCTION_LINES} lines"
    if path.name in THESE:
        return
    for what, pattern in PATTERNS.items():
        if path.suffix in COUNTED_IN[what]:
            for number, line in enumerate(lines, 1):
                if pattern.search(line):
                    yield what, f"{name}:{number}: {line.strip()}"


def count(root: Path) -> dict[str, list[str]]:
    """Return the places of each counted thing."""
    found: dict[str, list[str]] = {what: [] for what in ALLOWED}
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root)
            known = any(path.suffix in kinds for kinds in COUNTED_IN.values())
            if path.is_file() and known and not NOT_OURS.intersection(name.parts):
                for what, where in findings_in(path, str(name)):
                    found[what].append(where)
    return found


def judge(found: dict[str, list[str]], allowed: dict[str, int]) -> list[str]:
    """Return one message with the remedy for each count that differs from the allowed one."""
    messages = []
    for what, places in found.items():
        if len(places) > allowed[what]:
            listed = "\n  ".join(places)
            messages.append(
                f"{what}: {len(places)} found, {allowed[what]} allowed. "
                f"Fix one of these:\n  {listed}"
            )
        elif len(places) < allowed[what]:
            messages.append(
                f"{what}: {len(places)} found, {allowed[what]} allowed. Well done: "
                f"lower ALLOWED[{what!r}] in tools/check_ratchet.py to {len(places)} to keep it so."
            )
    return messages


def main() -> int:
    messages = judge(count(Path(__file__).resolve().parent.parent), ALLOWED)
    print("\n".join(messages) or "ratchet: nothing got worse")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
