"""The page about a run: verdicts, a map of ranks and steps, what differs."""

from __future__ import annotations

import base64
import json
from array import array
from importlib.resources import files as package_files
from typing import Any

from plimsoll.fleet.answer import Answer
from plimsoll.fleet.questions import Fleet

MOST_CELLS = 1_000_000
FULL = 65_534  # the highest peak; 65,535: no value


def page(fleet: Fleet, answer: Answer) -> str:
    """Return a page of one file without links to others on the network."""
    run = answer.run["run"]
    content = {
        "answer": vars(answer),
        "map": _map(fleet.steps(run), answer),
        "headline": answer.headline().replace("\n", " "),
        "calm": " ".join(answer.calm_lines()).replace("\n", " "),
    }
    data = json.dumps(content)
    source = package_files("plimsoll.fleet").joinpath("page.html").read_text(encoding="utf-8")
    # Within a script element, only "</" and "<!--" could end it.
    return source.replace("{data}", data.replace("<", "\\u003c"))


def _map(steps: list[dict[str, Any]], answer: Answer) -> dict[str, Any]:
    """Return the peak of each rank and step, rounded to a 65,534th of the highest one.

    Ranks are in the order of their coordinates. If there are too many cells, one stands for several
    steps, by the highest.
    """
    axes = ("pp", "ep", "tp", "cp", "dp")
    ranks = [
        row["rank"]
        for row in sorted(
            answer.ranks, key=lambda row: ([row[axis] or 0 for axis in axes], row["rank"])
        )
    ]
    first = min((row["step"] for row in steps), default=0)
    last = max((row["step"] for row in steps), default=0)
    each = max(1, -(-(last - first + 1) * len(ranks) // MOST_CELLS))
    columns = (last - first) // each + 1
    highest = max((row["peak_bytes"] for row in steps), default=0)
    cells = array("H", [FULL + 1]) * (len(ranks) * columns)
    places = {rank: place for place, rank in enumerate(ranks)}
    for row in steps:
        at = places[row["rank"]] * columns + (row["step"] - first) // each
        value = round(row["peak_bytes"] / highest * FULL) if highest else 0
        if cells[at] > FULL or value > cells[at]:
            cells[at] = value
    return {
        "ranks": ranks,
        "first": first,
        "each": each,
        "columns": columns if steps else 0,
        "highest_bytes": highest,
        "cells": base64.b64encode(cells.tobytes()).decode(),
    }
