"""The page about a run: verdicts, a map of ranks and steps, what differs."""

from __future__ import annotations

import base64
import json
from array import array
from importlib.resources import files as package_files
from typing import Any

from plimsoll.fleet.answer import Answer
from plimsoll.fleet.questions import Fleet
from plimsoll.fleet.rank_map import RankMap

FULL = 65_534  # the highest peak; 65,535: no value


def page(fleet: Fleet, answer: Answer) -> str:
    """Return a page of one file without links to others on the network."""
    content = {
        "answer": vars(answer),
        "map": _cells(fleet.map(answer)),
        "headline": answer.headline().replace("\n", " "),
        "calm": " ".join(answer.calm_lines()).replace("\n", " "),
    }
    data = json.dumps(content)
    source = package_files("plimsoll.fleet").joinpath("page.html").read_text(encoding="utf-8")
    # Within a script element, only "</" and "<!--" could end it.
    return source.replace("{data}", data.replace("<", "\\u003c"))


def _cells(ranks: RankMap) -> dict[str, Any]:
    """Return the peaks, rounded to a 65,534th of the highest one."""
    steps = {step for rank in ranks.ranks for step in rank.peaks}
    first = min(steps, default=0)
    columns = (max(steps) - first) // ranks.each + 1 if steps else 0
    highest = max((peak for rank in ranks.ranks for peak in rank.peaks.values()), default=0)
    cells = array("H", [FULL + 1]) * (len(ranks.ranks) * columns)
    for place, rank in enumerate(ranks.ranks):
        for step, peak in rank.peaks.items():
            at = place * columns + (step - first) // ranks.each
            cells[at] = round(peak / highest * FULL) if highest else 0
    return {
        "ranks": [rank.rank for rank in ranks.ranks],
        "groups": [rank.group for rank in ranks.ranks],
        "first": first,
        "each": ranks.each,
        "columns": columns,
        "highest_bytes": highest,
        "cells": base64.b64encode(cells.tobytes()).decode(),
    }
