"""What a fleet answers: plain rows, also as text and JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll._process.sizes import size_text
from plimsoll.fleet.words import count_text, named, time_text

WIDTH = 100
SHOWN = 10  # rows of a table


@dataclass
class Answer:
    """What matters about a run; docs/fleets.md describes the rows. Sizes are bytes."""

    by: str
    run: dict[str, Any]
    ranks: list[dict[str, Any]]  # a failed one first, then those that differ most
    findings: list[dict[str, Any]]  # of the ranks' reports, each with the number of ranks
    # Of the first rank that differs, from the median of its group
    differences: list[dict[str, Any]] = field(default_factory=list)
    causes: list[str] = field(
        default_factory=list
    )  # from a rank like the median; the largest first
    against: dict[str, Any] | None = None  # the earlier run
    changes: list[dict[str, Any]] = field(default_factory=list)  # from that run
    verdicts: list[dict[str, Any]] = field(default_factory=list)  # the most severe first

    def json(self) -> str:
        """Return all rows as one JSON object."""
        return json.dumps(vars(self), indent=2)

    @property
    def differing(self) -> dict[str, Any] | None:
        """The rank that differs most; one that has failed comes first."""
        return next((row for row in self.ranks if row["differs"]), None)

    def alike(self, odd: dict[str, Any]) -> dict[str, Any]:
        """Return the rank of the same group whose peak is closest to the median."""
        group = [row for row in self.ranks if row is not odd and row["group"] == odd["group"]]
        return min(group, key=lambda row: (abs(row["difference_bytes"]), row["rank"]), default=odd)

    def __str__(self) -> str:
        """Return the answer as text, verdicts first."""
        lines = [self.headline(), ""]
        for verdict in self.verdicts:
            lines += _verdict_lines(verdict)
        lines += self.calm_lines()
        lines += self._rank_table()
        if self.by == "rank":
            return "\n".join(lines)
        first = self.differing
        if first is not None and self.differences:
            usual = "other rank" if first["members"] == 2 else "median"
            of_group = "" if first["members"] == 2 else " of its group"
            title = f"Rank {first['rank']} compared with the {usual}{of_group}, by {self.by}"
            lines += ["", title, *self._byte_table(self.differences, "usual_bytes", usual)]
        if self.changes and self.against is not None:
            title = f"Since run {self.against['run']}, the median of the ranks, by {self.by}"
            lines += ["", title, *self._byte_table(self.changes, "before_bytes", "before")]
        lines += self._finding_lines()
        return "\n".join(lines)

    def headline(self) -> str:
        """Return the facts about the run."""
        run = self.run
        words = [f"Run {run['run']}: {_ranks(run['ranks'])}"]
        missing = run["world_size"] - run["ranks"]
        if missing > 0:
            known = {row["rank"] for row in self.ranks}
            some = [str(rank) for rank in range(run["world_size"]) if rank not in known][:5]
            words.append(
                f"{count_text(missing)} missing ({', '.join(some)}{', …' * (missing > 5)})"
            )
        if run["steps"]:
            words.append(f"{count_text(run['steps'])} steps")
        if run["commit"]:
            words.append(f"commit {run['commit'][:12]}")
        if run["started_ns"] is not None:
            words.append(time_text(run["started_ns"]))
        cut = [row for row in self.ranks if row["incomplete"]]
        if cut:
            why = textwrap.shorten(cut[0]["incomplete"].partition(" (")[0], 80, placeholder=" …")
            words.append(f"{_ranks(len(cut))} incomplete (rank {cut[0]['rank']}: {why})")
        several = [row for row in self.ranks if row["others"]]
        if several:
            row = several[0]
            words.append(
                f"{_ranks(len(several))} added more than once (rank {row['rank']}: shown is"
                f" {row['path']}, added last, not {', '.join(row['others'])}; fleet add --replace"
                " chooses)"
            )
        return textwrap.fill(", ".join(words), WIDTH)

    def calm_lines(self) -> list[str]:
        """Return what was looked for and not found."""
        found = {verdict["id"] for verdict in self.verdicts}
        words = []
        if "out_of_memory" not in found and "ranks_differ" not in found:
            others = "there is no other to compare it with"
            if len(self.ranks) > 1:
                groups = len({row["group"] for row in self.ranks})
                of_group = f" from those of its group ({groups} groups)" if groups > 1 else ""
                others = f"no rank differs{of_group}"
            words.append(f"No rank ran out of memory, and {others}.")
        if self.against is not None and "peak_changed" not in found:
            words.append(f"The peaks are those of run {self.against['run']}.")
        return [textwrap.fill(" ".join(words), WIDTH), ""] if words else []

    def _rank_table(self) -> list[str]:
        room = [row for row in self.ranks if row["headroom_bytes"] is not None]
        tight = min(room, key=lambda row: row["headroom_bytes"], default=None)
        shown = self.ranks if self.by == "rank" else self.ranks[:SHOWN]
        if tight is not None and tight not in shown:
            shown = [*shown[:-1], tight]
        rows = [("rank", "at", "peak", "from median", "free", "unused", "step", "phase", "")]
        for row in shown:
            rows.append(
                (
                    str(row["rank"]),
                    _coordinates(row),
                    size_text(row["peak_bytes"]),
                    _signed(row["difference_bytes"]) if row["members"] > 1 else "",
                    _size(row["headroom_bytes"]),
                    _size(row["unused_bytes"]),
                    "" if row["peak_step"] is None else count_text(row["peak_step"]),
                    row["peak_phase"],
                    _mark(row, row is tight and len(room) > 1),
                )
            )
        lines = _table(rows, numbers=(0, 2, 3, 4, 5, 6))
        if len(self.ranks) > len(shown):
            lines.append(
                f"… and {count_text(len(self.ranks) - len(shown))} more; --by rank lists all"
            )
        return lines

    def _byte_table(self, rows: list[dict[str, Any]], key: str, heading: str) -> list[str]:
        cells = [("change", "now" if key == "before_bytes" else "rank", heading, "")]
        for row in rows[:SHOWN]:
            cells.append(
                (
                    _signed(row["difference_bytes"]),
                    size_text(row["bytes"]),
                    size_text(row[key]),
                    named(self.by, row),
                )
            )
        return _table(cells, numbers=(0, 1, 2))

    def _finding_lines(self) -> list[str]:
        rows = [row for row in self.findings if row["severity"] != "info"]
        if not rows:
            return []
        lines = ["", "Findings of the ranks' own reports"]
        for row in rows[:5]:
            head = f"{_ranks(row['ranks'])}: {row['title']}"
            lines += textwrap.wrap(head, WIDTH, initial_indent="  ", subsequent_indent="    ")
        return lines


@dataclass
class History:
    """The peak of each run in the order of time; `change_bytes` is 0 within the earlier range."""

    runs: list[dict[str, Any]]

    def json(self) -> str:
        """Return all rows as one JSON object."""
        return json.dumps(vars(self), indent=2)

    def __str__(self) -> str:
        """Return the changes, the newest first, and the last runs."""
        changed = [row for row in reversed(self.runs) if row["change_bytes"]]
        lines = []
        for row in changed[:SHOWN]:
            is_above = row["change_bytes"] > 0
            bound = size_text(row["most_bytes"] if is_above else row["least_bytes"])
            before = f"that of the run before ({bound})"
            if row["runs_before"] > 1:
                limit = "most" if is_above else "least"
                before = f"the {limit} of the {_runs(row['runs_before'])} before ({bound})"
            change = f"{size_text(abs(row['change_bytes']))} {'above' if is_above else 'below'}"
            peak = size_text(row["peak_bytes"])
            head = f"Since {_which(row)}, the peak is {peak}, {change} {before}"
            lines += textwrap.wrap(f"{head}: {row['workload']}", WIDTH)
        compared = [row for row in self.runs if row["runs_before"]]
        if not compared:
            workloads = {row["workload"] or row["run"] for row in self.runs}
            lines += textwrap.wrap(
                f"Nothing to compare: {_runs(len(self.runs))} of {len(workloads)} workloads. Runs"
                " are compared if they have the same tag workload, else the same command line, and"
                " as many ranks on the same kind of device.",
                WIDTH,
            )
        elif not changed:
            lines.append(f"No change: {_runs(len(compared))} within the range of earlier ones.")
        if len(changed) > SHOWN:
            lines.append(
                f"… and {count_text(len(changed) - SHOWN)} earlier changes; --json has all"
            )
        rows = [("run", "commit", "started", "ranks", "peak", "change", "workload")]
        for row in self.runs[-SHOWN:]:
            rows.append(
                (
                    row["run"] if len(row["run"]) <= 26 else row["run"][:25] + "…",
                    row["commit"][:9],
                    time_text(row["started_ns"]),
                    count_text(row["ranks"]),
                    size_text(row["peak_bytes"]),
                    _signed(row["change_bytes"]) if row["change_bytes"] else "",
                    row["workload"][:24],
                )
            )
        return "\n".join([*lines, "", *_table(rows, numbers=(3, 4, 5))])


def _which(row: dict[str, Any]) -> str:
    return f"commit {row['commit']} (run {row['run']})" if row["commit"] else f"run {row['run']}"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{count_text(number)} runs"


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{count_text(number)} ranks"


def _verdict_lines(verdict: dict[str, Any]) -> list[str]:
    lines = textwrap.wrap(f"{verdict['severity'].upper()} {verdict['title']}", WIDTH)
    for text in verdict["evidence"]:
        lines += textwrap.wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    step = f"Next: {verdict['next_step']}"
    lines += textwrap.wrap(step, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*lines, ""]


def _coordinates(row: dict[str, Any]) -> str:
    axes = ("pp", "ep", "dp", "cp", "tp")
    return " ".join(f"{axis}{row[axis]}" for axis in axes if row[axis] is not None)


def _mark(row: dict[str, Any], is_tightest: bool) -> str:
    words = ["out of memory"] if row["ooms"] else []
    words += ["differs"] if row["differs"] else []
    words += ["least free"] if is_tightest else []
    words += ["incomplete"] if row["incomplete"] else []
    return ", ".join(words)


def _size(size_bytes: int | None) -> str:
    return "" if size_bytes is None else size_text(size_bytes)


def _signed(size_bytes: int) -> str:
    if size_bytes == 0:
        return "0"
    return ("+" if size_bytes > 0 else "-") + size_text(abs(size_bytes))


def _table(rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> list[str]:
    """Align the columns; those without content below the heading are left out."""
    columns = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    widths = {i: max(len(row[i]) for row in rows) for i in columns}
    lines = []
    for row in rows:
        cells = [
            row[i].rjust(widths[i]) if i in numbers else row[i].ljust(widths[i]) for i in columns
        ]
        line = "  " + "  ".join(cells).rstrip()
        lines.append(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")
    return lines
