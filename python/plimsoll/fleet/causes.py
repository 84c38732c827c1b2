"""Why a rank differs from a comparable one, as `plimsoll diff` words it, by what a fleet stores."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import plimsoll

MOST_CAUSES = 2
COLUMNS = ("category", "phase", "layer", "operator", "function", "text", "dtype", "place")


def causes_of(
    before: list[dict[str, Any]], after: list[dict[str, Any]], steps: int, command: str
) -> list[str]:
    """Return the causes of the difference between two peaks, the largest first.

    Args:
        before: The peak of the comparable rank: rows of the table `peaks` with those of `sites`.
        after: The peak of the rank that differs.
        steps: Number of steps of the run.
        command: Command line of the run.
    """
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as scratch:
        paths = [os.path.join(scratch, name) for name in ("before.json", "after.json")]
        for path, rows in zip(paths, (before, after), strict=True):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(_digest(rows, steps, command), file)
        try:
            difference = plimsoll.diff(*paths, at="peak", top=MOST_CAUSES)
        except plimsoll.Error:  # a contradictory file: the rows are shown, without a cause
            return []
    texts = [text for finding in difference.findings[:1] for text in finding["evidence"]]
    return [text for text in texts if text[0] in "+-" and not text.endswith("everything else")]


def _digest(rows: list[dict[str, Any]], steps: int, command: str) -> dict[str, Any]:
    """Return a digest of the peak (src/report/digest.h)."""
    device = "cuda:0"  # the same in both: ranks are compared, whatever the number of their GPU
    return {
        "digest_version": "1.4",
        "source": {
            "path": "",
            "format": "plimsoll",
            "rank": None,
            "command": command,
            "python": "",
            "torch": "",
            "plimsoll": plimsoll.__version__,
            "steps": steps,
        },
        "points": [
            {
                "device": device,
                "name": "peak",
                "bytes": sum(row["bytes"] for row in rows),
                "step": None,
                "phase": "",
                "layer": "",
            }
        ],
        "keys": [
            {"device": device, "offset": 0, "example_layer": row["example_layer"]}
            | {name: row[name] or "" for name in COLUMNS}
            for row in rows
        ],
        "rows": [
            {
                "point": 0,
                "key": i,
                "bytes": row["bytes"],
                "count": row["count"],
                "largest_bytes": row["largest_bytes"],
                "shape": row["shape"],
                "instances": row["layers"],
                "instance_bytes": row["bytes"] // row["layers"] if row["layers"] else 0,
                "uneven": [],
            }
            for i, row in enumerate(rows)
        ],
        "modules": [],
    }
