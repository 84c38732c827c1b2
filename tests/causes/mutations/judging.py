"""Judges recorded variants, without torch: is the first finding that of the unchanged program?"""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.causes import registry
from tests.causes.mutations.recording import MUTATIONS, UNCHANGED, Row, rows_of
from tests.causes.mutations.source import CAUSES, Source
from tests.causes.mutations.tree import LINE_MAPS

import plimsoll

PLACE = re.compile(r"([\w./-]+\.py):(\d+)")


class Verdict(NamedTuple):
    id: str  # of the first finding; "none" without any
    place: str  # the first line that it names, of the unchanged program; or ""
    title: str


class Variant(NamedTuple):
    program: str
    topic: str
    mutation: str
    reason: str  # why there is no recording, or ""
    before: Verdict
    after: Verdict


class Lines:
    """The lines of the unchanged program, and the first lines of their statements."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.maps: dict[str, dict[str, list[int]]] = {}
        self.sources: dict[str, Source | None] = {}

    def place(self, text: str, tree: str) -> str:
        found = PLACE.search(text)
        if not found:
            return ""
        file, line = found[1].rpartition("causes/")[2], int(found[2])
        if tree not in self.maps:
            self.maps[tree] = json.loads((self.folder / "trees" / tree / LINE_MAPS).read_text())
        lines = self.maps[tree].get(file)
        if lines:
            line = lines[line - 1]
        if file not in self.sources:
            path = self.folder / "trees" / UNCHANGED / "tests" / "causes" / file
            path = path if path.exists() else CAUSES / file
            self.sources[file] = Source(Path(file), path.read_text()) if path.exists() else None
        source = self.sources[file]
        return f"{file}:{source.statement(line) if source else line}"


def findings_of(recording: Path, command: str | None) -> list[dict]:
    if command is None:
        return plimsoll.open(recording).findings
    words = [command, "report", "--json", str(recording)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["findings"]


def verdict(row: Row, folder: Path, lines: Lines, command: str | None) -> Verdict:
    if "file" not in row:
        return Verdict("", "", "")
    findings = findings_of(folder / row["file"], command)
    if not findings:
        return Verdict("none", "", "")
    first = findings[0]
    text = " ".join([first["title"], *first["evidence"], first["next_step"]])
    return Verdict(first["id"], lines.place(text, row["tree"]), first["title"])


def judged(folder: Path, names: Iterable[str], command: str | None = None) -> list[Variant]:
    """All variants of these programs in a folder, in the order of the table and of MUTATIONS."""
    rows, lines = rows_of(folder), Lines(folder)
    variants = []
    for name in names:
        unchanged = rows.get((name, UNCHANGED), {})
        before = verdict(unchanged, folder, lines, command)
        for mutation in MUTATIONS:
            row = rows.get((name, mutation))
            if row is None:
                continue
            reason = row.get("reason", "")
            if "reason" in unchanged:
                reason = f"the unchanged program {unchanged['reason']}"
            after = verdict(row, folder, lines, command)
            topic = registry.table()[name]["topic"]
            variants.append(Variant(name, topic, mutation, reason, before, after))
    return variants


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def print_by_mutation(variants: list[Variant]) -> None:
    print("| mutation | ran | same first finding | | same line | nothing to change | did not run |")
    print("|---|---|---|---|---|---|---|")
    for mutation in (*MUTATIONS, "all"):
        mine = [each for each in variants if mutation in ("all", each.mutation)]
        ran = [each for each in mine if not each.reason]
        same = [each for each in ran if each.after.id == each.before.id]
        with_line = [each for each in same if each.before.place]
        at_line = sum(each.after.place == each.before.place for each in with_line)
        failed = sum("run" in each.reason for each in mine)
        print(
            f"| {mutation} | {len(ran)} | {len(same)} | {share(len(same), len(ran))} "
            f"| {at_line} of {len(with_line)} | {len(mine) - len(ran) - failed} | {failed} |"
        )


def print_by_topic(variants: list[Variant]) -> None:
    """Same first findings of the variants that ran, by topic and mutation."""
    print("| topic | " + " | ".join(MUTATIONS) + " | all |")
    print("|---" * (len(MUTATIONS) + 2) + "|")
    same: Counter[tuple[str, str]] = Counter()
    ran: Counter[tuple[str, str]] = Counter()
    for each in variants:
        if not each.reason:
            for key in ((each.topic, each.mutation), (each.topic, "all")):
                ran[key] += 1
                same[key] += each.after.id == each.before.id
    for topic in dict.fromkeys(each.topic for each in variants):
        cells = [(same[topic, each], ran[topic, each]) for each in (*MUTATIONS, "all")]
        words = [f"{part} of {whole}" if whole else "-" for part, whole in cells]
        print(f"| {topic} | " + " | ".join(words) + " |")


def write_differences(variants: list[Variant], path: Path) -> None:
    """One row for each variant that did not run, or has another first finding or line."""
    with path.open("w") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        names = ("mutation", "topic", "program", "before", "after", "line_before", "line_after")
        rows.writerow([*names, "title_before", "title_after", "reason"])
        for each in sorted(variants, key=lambda each: MUTATIONS.index(each.mutation)):
            before, after = each.before, each.after
            if each.reason or (before.id, before.place) != (after.id, after.place):
                row = [each.mutation, each.topic, each.program, before.id, after.id]
                row += [before.place, after.place, before.title, after.title, each.reason]
                rows.writerow(row)
