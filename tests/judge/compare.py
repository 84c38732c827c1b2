"""Compare the results of two judges: what differs, by kind, and which answers are right.

    python -m tests.judge.compare BEFORE [AFTER] [--detail FILE]

With one file of results, it lists the wrong answers. The exit status is 1 if two results differ.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.causes import registry, test_causes

from .archive import CLEAN

Row = dict[str, Any]
KINDS = (
    *("new failure", "status", "first finding", "set of ids", "order", "severity", "saving"),
    *("steps", "words", "near misses", "only in one"),
)
SAVING_TOLERANCE = 0.02
# Numbers and places differ in each program: masked, equal changes of words are one line.
MASKED = re.compile(r"[\w./-]+\.(py|h|cc|cpp|cu):\d+( \([^)]*\))?|\d[\d,.]*( [KMGT]?i?B\b|%)?")


def read(path: Path) -> dict[str, Row]:
    return {row["file"]: row for row in map(json.loads, path.open())}


def first_of(row: Row) -> str:
    if row["error"] and not row["findings"]:
        return f"(exit status {row['status']})"
    return row["findings"][0]["id"] if row["findings"] else "(nothing)"


def is_planted(row: Row) -> bool:
    if row["program"]:
        return registry.table()[row["program"]]["finding"] != "none"
    return row["right"] not in ([], [CLEAN])


def is_right(row: Row) -> bool:
    """The rule of tests/causes for its programs. Else one of the right ids is first, if any."""
    findings, program, right = row["findings"], row["program"], row["right"]
    if program and is_planted(row):
        return test_causes.is_right(program, findings)
    if program or right == [CLEAN]:
        allowed = registry.table()[program]["allowed"].split("|") if program else ()
        alarms = test_causes.false_alarms([each for each in findings if each["id"] not in allowed])
        return row["status"] == 0 and not alarms
    return row["status"] == 0 and (first_of(row) in right if right else not findings)


def words_that_differ(before: str, after: str) -> str:
    one, two = (MASKED.sub("#", text).split() for text in (before, after))
    changes = difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    parts = [
        f"“{' '.join(one[a:b])[:70]}” → “{' '.join(two[c:d])[:70]}”"
        for kind, a, b, c, d in changes
        if kind != "equal"
    ]
    return "; ".join(parts[:3]) or "numbers or places"


def by_id(findings: list[Row]) -> dict[tuple[str, int], Row]:
    """The findings by id, and by number among those with the same id."""
    ids = [finding["id"] for finding in findings]
    return {(each, ids[:i].count(each)): findings[i] for i, each in enumerate(ids)}


def of_finding(one: Row, two: Row) -> Iterator[tuple[str, str]]:
    """What differs between two findings with the same id."""
    name = one["id"]
    if one["severity"] != two["severity"]:
        yield "severity", f"{name}: {one['severity']} → {two['severity']}"
    was, now = one["saving_bytes"], two["saving_bytes"]
    if abs(was - now) > SAVING_TOLERANCE * max(was, now):
        yield "saving", f"{name}: {'larger' if was < now else 'smaller' if now else 'gone'}"
    steps = [each.get("steps", []) for each in (one, two)]
    if all(steps) and steps[0] != steps[1]:
        yield "steps", f"{name}: {len(steps[0])} → {len(steps[1])}"
    for field in ("title", "evidence", "next_step"):
        if one[field] != two[field]:
            texts = [each[field] for each in (one, two)]
            before, after = map(" ".join, texts) if field == "evidence" else texts
            yield "words", f"{name}, {field}: {words_that_differ(before, after)}"


def differences(before: Row, after: Row) -> Iterator[tuple[str, str]]:
    """Each difference as its kind and a text that is the same for equal changes."""
    if (before["status"], before["error"]) != (after["status"], after["error"]):
        texts = [f"{each['status']} {each['error'][:60]}".strip() for each in (before, after)]
        yield "new failure" if after["status"] != 0 else "status", " → ".join(texts)
    if first_of(before) != first_of(after):
        yield "first finding", f"{first_of(before)} → {first_of(after)}"
    one, two = by_id(before["findings"]), by_id(after["findings"])
    if one.keys() != two.keys():
        gone = [f"-{name}" for name, _ in one if (name, _) not in two]
        new = [f"+{name}" for name, _ in two if (name, _) not in one]
        yield "set of ids", " ".join([*gone, *new])
    elif list(one) != list(two) and first_of(before) == first_of(after):
        yield "order", f"after {first_of(before)}"
    for key in one:
        if key in two:
            yield from of_finding(one[key], two[key])
    if before["near_misses"] != after["near_misses"]:
        yield "near misses", f"{len(before['near_misses'])} → {len(after['near_misses'])}"


def table(before: dict[str, Row], after: dict[str, Row]) -> list[str]:
    """One line for equal differences of many files: the kind, the count, what, and an example."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for file in {**before, **after}:
        if file in before and file in after:
            for group in dict.fromkeys(differences(before[file], after[file])):
                groups[group].append(file)
        else:
            which = "before" if file in before else "after"
            groups["only in one", f"only {which}"].append(file)
    ordered = sorted(groups.items(), key=lambda item: (KINDS.index(item[0][0]), -len(item[1])))
    return [f"{kind:14}{len(files):5}  {what}  ({files[0]})" for (kind, what), files in ordered]


def right_or_wrong(before: dict[str, Row], after: dict[str, Row]) -> list[str]:
    """The right answers by suite, and each file whose answer is broken, fixed or still wrong."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    listed = []
    for file, new in after.items():
        row = registry.table().get(new["program"])
        if file not in before or (row is None and new["right"] is None):
            continue
        old = before[file]
        kind = ("wrong", "fixed", "broke", "right")[2 * is_right(old) + is_right(new)]
        counts[f"{new['suite']}, {'planted' if is_planted(new) else 'clean'}"][kind] += 1
        if kind != "right":
            expected = f"{row['finding']} {row['names']}" if row else "|".join(new["right"])
            change = " → ".join(dict.fromkeys([first_of(old), first_of(new)]))
            listed.append(f"{kind}  {file}: {change}; expected {expected}".rstrip())
    lines = [f"{'suite':22}{'files':>7}{'before':>8}{'after':>7}{'fixed':>7}{'broke':>7}"]
    for suite, of in counts.items():
        right = [of["right"] + of["broke"], of["right"] + of["fixed"], of["fixed"], of["broke"]]
        lines.append(f"{suite:22}{of.total():7}" + "{:8}{:7}{:7}{:7}".format(*right))
    return [*lines, *sorted(listed)]


def detail(file: str, results: list[dict[str, Row]]) -> Iterator[str]:
    for rows in results:
        for name, row in rows.items():
            if file in name:
                yield f"== {name}: exit status {row['status']}, {row['seconds']} s {row['error']}"
                for key in ("findings", "near_misses"):
                    yield f"   {key}: {json.dumps(row[key], indent=2, ensure_ascii=False)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--detail", metavar="FILE", help="print both answers for FILE in full")
    chosen = parser.parse_args()
    before = read(chosen.before)
    after = read(chosen.after) if chosen.after else before
    if chosen.detail:
        print(*detail(chosen.detail, [before, after] if chosen.after else [before]), sep="\n")
        return
    different = table(before, after)
    print(*different, *([""] if different else []), *right_or_wrong(before, after), sep="\n")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
