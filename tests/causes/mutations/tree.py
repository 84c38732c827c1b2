"""Copies of tests/causes with mutated source text, in which a process runs programs."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.causes.mutations import in_place, lines, names, sizes, wrapping
from tests.causes.mutations.reach import Reach
from tests.causes.mutations.source import (
    CAUSES,
    SHARED,
    Edit,
    Source,
    applied,
    programs_text,
)

Edits = dict[Path, list[Edit]]
# By mutation: its versions, of which the first that a program can run counts.
SOURCE_MUTATIONS: dict[str, list[Callable[[dict[Path, Source]], Edits]]] = {
    "sizes": [
        functools.partial(sizes.edits, more=more, batch=batch)
        for more, batch in ((1, 0), (4, 1), (8, 1), (4, 0), (12, 3))
    ],
    "lines": [lines.edits],
    "names": [names.edits],
    "wrapped": [wrapping.edits],
    "in_place": [functools.partial(in_place.edits, updates=each) for each in (True, False)],
}
LINE_MAPS = "lines.json"


class Programs:
    """The text of programs, and what each of them reaches."""

    def __init__(self, programs: Iterable[str]) -> None:
        self.reach = Reach(programs_text())
        self.lines = {name: self.reach.lines(name) for name in programs}
        self.files = self._files()

    def _files(self) -> dict[Path, Source]:
        """The files that the programs import, directly or not."""
        imports = {(here, home) for (here, _), (home, _) in self.reach.imported.items()}
        needed: set[Path] = set()
        pending = {Path(name) for name in SHARED}.union(*self.lines.values())
        while pending:
            needed |= pending
            above = {home for here, home in imports if here in pending}
            pending = (above & self.reach.sources.keys()) - needed
        return {path: self.reach.sources[path] for path in sorted(needed)}

    def count(self, program: str, edits: Edits) -> int:
        """How many edits are in code that the program can run."""
        return sum(
            is_inside(self.files[path], edit, ranges)
            for path, ranges in self.lines[program].items()
            for edit in edits.get(path, [])
        )


def is_inside(source: Source, edit: Edit, ranges: Iterable[tuple[int, int]]) -> bool:
    if edit.text == wrapping.IMPORT:
        return False
    return any(
        source.begins[first - 1] <= edit.start < source.begins[min(last, len(source.lines))]
        for first, last in ranges
    )


def write(programs: Programs, edits: Edits, folder: Path) -> None:
    """Write the files of programs after edits, with the registry and its table."""
    causes = folder / "tests" / "causes"
    shutil.rmtree(causes, ignore_errors=True)  # of other programs
    for path, source in programs.files.items():
        made = edits.get(path, [])
        (causes / path).parent.mkdir(parents=True, exist_ok=True)
        (causes / path).write_text(applied(source, made))
    for name in ("__init__.py", "registry.py", "expected.tsv"):
        shutil.copy(CAUSES / name, causes)
    shutil.copytree(CAUSES / "mutations", causes / "mutations", dirs_exist_ok=True)
    maps = {
        str(path): lines.original_lines(programs.files[path], made)
        for path, made in edits.items()
        if made and all(each.text == "\n" for each in made)
    }
    before = folder / LINE_MAPS
    earlier = json.loads(before.read_text()) if before.exists() else {}
    before.write_text(json.dumps(earlier | maps))


def new_programs(programs: Programs) -> dict[str, str]:
    """What the registry calls each program after `names`."""
    variables, _ = names.renamed(programs.files)
    new = {}
    for program in programs.lines:
        group, _, function = program.partition("/")
        new[program] = f"{group}/{variables.get(function, function)}"
    return {
        old: name for old, name in new.items() if old != name and not old.startswith("scripts/")
    }
