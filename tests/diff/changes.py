"""The edits of changes.txt, applied to the programs in `programs`.

`expected.tsv` has the first cause that a diff must name for each, a pattern that the causes of the
first finding must match (`also`), and the most causes that it may have (`most`). After a neutral
edit, a diff must find no difference.
"""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

FOLDER = Path(__file__).parent


def expected() -> list[dict[str, str]]:
    with (FOLDER / "expected.tsv").open() as table:
        return list(csv.DictReader(table, delimiter="\t"))


def original(program: str) -> str:
    return (FOLDER / "programs" / f"{program}.py").read_text()


def changed(program: str, change: str) -> str:
    """Return the text of the program after the edit.

    An edit replaces lines ("-", then "+"), or a text wherever it occurs ("~before => after").
    """
    source = original(program)
    edits = ("\n" + (FOLDER / "changes.txt").read_text()).split("\n== ")
    lines = next(each for each in edits if each.split("\n")[0] == change).splitlines()[1:]
    removed = ""
    for sign, group in groupby(lines, key=lambda line: line[0]):
        if sign == "~":
            for each in group:
                source = replaced(source, *each[1:].split(" => "))
            continue
        block = "".join(f"{each[1:]}\n" for each in group)
        if sign == "-":
            removed = block
        else:
            source = replaced(source, removed, block)
    return source


def replaced(source: str, before: str, after: str) -> str:
    assert before in source, f"not in the program: {before!r}"
    return source.replace(before, after)
