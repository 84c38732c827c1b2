"""Every program of tests/causes by name, and the table of what each must raise.

A program is a function in a module of its topic (`growth/graphs.py`), registered under
"GROUP/NAME", or a script (`growth/scripts/image_pool.py`), registered under "scripts/NAME".
expected.tsv has a row for each.
"""

from __future__ import annotations

import csv
import functools
import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

FOLDER = Path(__file__).parent
Program = Callable[[], object]
PROGRAMS: dict[str, Program] = {}  # a name starts with its architecture: "vit/ema_copy"
SCRIPTS = {f"scripts/{path.stem}": path for path in sorted(FOLDER.glob("*/scripts/*.py"))}


def program(*names: str, wide: bool = False) -> Callable[[Any], Any]:
    """Register a function under "ARCHITECTURE/NAME" for each of `names`. It gets the architecture;
    with `wide`, the one with many parameters."""
    from tests.causes.architectures import ARCHITECTURES, WIDE

    def register(function: Any) -> Any:
        for name in names:

            def run(name: str = name) -> object:
                return function((WIDE if wide else ARCHITECTURES)[name])

            PROGRAMS[f"{name}/{function.__name__}"] = run
        return function

    return register


def standalone(group: str) -> Callable[[Any], Any]:
    """Register a function unchanged under "GROUP/NAME": it creates its own model."""

    def register(function: Any) -> Any:
        PROGRAMS[f"{group}/{function.__name__}"] = function
        return function

    return register


def run_script(path: Path) -> None:
    with mock.patch.object(sys, "argv", [str(path)]):
        runpy.run_path(str(path), run_name="__main__")


@functools.cache
def table() -> dict[str, dict[str, str]]:
    """The rows of expected.tsv by program.

    `finding`: ids that may come first, separated by |, or "none" for a clean program. `names`: a
    pattern that the text of the first finding matches. `allowed`: ids of findings that are right
    for a clean program. `words`: the mistake.
    """
    with (FOLDER / "expected.tsv").open() as lines:
        return {row["program"]: row for row in csv.DictReader(lines, delimiter="\t")}


def planted() -> dict[str, dict[str, str]]:
    return {name: row for name, row in table().items() if row["finding"] != "none"}


def clean() -> list[str]:
    return [name for name, row in table().items() if row["finding"] == "none"]


def load() -> dict[str, Program]:
    """Import the modules of all topics, which registers functions, and return all programs."""
    topics = {row["topic"] for row in table().values()}
    for path in sorted(FOLDER.glob("*/*.py")):
        if path.parent.name in topics:
            importlib.import_module(f"tests.causes.{path.parent.name}.{path.stem}")
    return PROGRAMS | {name: functools.partial(run_script, path) for name, path in SCRIPTS.items()}
