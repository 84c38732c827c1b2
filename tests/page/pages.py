"""Pages of recordings, and the numbers that they must show."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 1_000_000
# The tables of a page, and the tables of the JSON report with the same rows.
TABLES = {
    "category": "by_category",
    "layer": "by_layer",
    "line": "by_line",
    "operator": "by_operator",
    "tensor": "by_tensor",
}


@dataclass(frozen=True)
class Page:
    path: Path
    text: str
    report: dict[str, Any]  # of one recording; for ranks, of one that the page summarizes

    def device(self, name: str) -> dict[str, Any]:
        (found,) = (each for each in self.report["devices"] if device_name(each) == name)
        return found

    def point(self, name: str) -> dict[str, Any]:
        """The point in time that the tables of a device are about."""
        ordinal = self.device(name)["device"]
        return next(
            each for each in self.report["tables"]["points_in_time"] if each["device"] == ordinal
        )

    def rows(self, name: str, table: str) -> dict[str, int]:
        ordinal = self.device(name)["device"]
        rows: dict[str, int] = {}
        for row in self.report["tables"][TABLES[table]]:
            if row["device"] == ordinal:
                rows[row["key"]] = rows.get(row["key"], 0) + row["bytes"]
        return rows


def device_name(device: dict[str, Any]) -> str:
    kind, ordinal = device["device_type"], device["device"]
    return f"{kind}:{ordinal}" if ordinal >= 0 and kind != "cpu" else str(kind)


def held(device: dict[str, Any]) -> dict[str, int]:
    """The series that the tables sum."""
    series: dict[str, int] = device["allocated"] or device["requested_active"]
    return series


def make_page(command: str, recordings: list[Path], path: Path) -> Page:
    words = [command, "report", *map(str, recordings), "--html", str(path), "--force"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json_report(command, recordings[0], "failure-or-peak")
    return Page(path, path.read_text(encoding="utf-8"), report)


def json_report(command: str, recording: Path, at: str) -> dict[str, Any]:
    """The report at a point in time, with all rows."""
    words = [command, "report", str(recording), "--json", "--top", "1000000", "--at", at]
    done = subprocess.run(words, capture_output=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report
