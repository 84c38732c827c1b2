"""Which programs of expected.tsv rules A and B find.

    python -m tests.uses.table [--archive FOLDER] [ARCHITECTURE|PROGRAM...]

Records the programs, or reads the recordings of an archive (tests.judge.archive).

The kinds of expected.tsv: `kept` and never read again: a rule must find it, and its first line
matches `line`. `partly`: a rule may find it, because some memory is kept and never read. `not`
deadness, and `healthy`: no rule may find anything.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GROUP = 6  # programs in one process
MARK = "\x1e"  # begins a line of ours: programs print, too


def expected() -> dict[str, dict[str, str]]:
    with Path(__file__).with_name("expected.tsv").open() as table:
        return {row["program"]: row for row in csv.DictReader(table, delimiter="\t")}


def record(names: list[str]) -> None:
    """Record programs in this process, and print `last_use` and the findings of each."""
    import torch
    from tests.causes import registry

    import plimsoll

    programs = registry.load()

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder, "run.plim")
            torch.manual_seed(0)
            with plimsoll.record(path, uses="always", overwrite=True):
                try:
                    programs[name]()
                except ModuleNotFoundError as error:
                    print(f"{MARK}{json.dumps([name, {}, [str(error)]])}", flush=True)
                    continue
            gc.collect()
            trace = plimsoll.open(path)
            cpu = next(each for each in trace.devices if each["device"] == -1)
            found = [each["id"] for each in trace.findings]
            print(MARK + json.dumps([name, cpu["last_use"], found]), flush=True)


def uses_of(names: list[str]) -> Iterator[tuple[str, dict, list[str]]]:
    for i in range(0, len(names), GROUP):
        words = [sys.executable, "-m", "tests.uses.table", "--record", *names[i : i + GROUP]]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        for line in done.stdout.split("\n"):
            if line.startswith(MARK):
                yield tuple(json.loads(line.removeprefix(MARK)))


def uses_of_archive(folder: Path, names: list[str]) -> Iterator[tuple[str, dict, list[str]]]:
    from tests.judge.archive import COMMAND

    for name in names:
        file = folder / "causes" / f"{name}.plim"
        if not file.is_file():
            yield name, {}, ["not in the archive"]
            continue
        words = [COMMAND, "report", "--json", "--device", "cpu", file]
        report = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        cpu = next(each for each in report["devices"] if each["device"] == -1)
        yield name, cpu["last_use"] or {}, [each["id"] for each in report["findings"]]


def is_of_rule_a(last_use: dict) -> bool:
    return last_use["kept_bytes"] >= 0.15 * last_use["live_bytes"]


def is_of_rule_b(last_use: dict) -> bool:
    return last_use["certain_saving_bytes"] >= 0.2 * last_use["live_bytes"]


def first_line(last_use: dict, rules: str) -> str:
    """The largest line that the rules are about."""
    for row in last_use["rows"]:
        kept = row["kind"] == "kept" and row["count"] >= 3
        if not row["is_bounded"] and (
            ("A" in rules and kept) or ("B" in rules and row["certain_bytes"])
        ):
            return row["line"]
    return ""


def verdict(row: dict[str, str], rules: str, line: str) -> str:
    if row["kind"] == "kept":
        if not rules:
            return "missed"
        return "found" if re.search(row["line"], line) else "other line"
    if row["kind"] == "partly":
        return "found" if rules else "silent"
    return "FALSE" if rules else "silent"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", help="default: all")
    parser.add_argument("--archive", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    wanted = set(options.programs)
    chosen = [name for name in expected() if not wanted or {name, name.partition("/")[0]} & wanted]
    counts: Counter[tuple[str, str]] = Counter()
    read = uses_of_archive(options.archive, chosen) if options.archive else uses_of(chosen)
    for name, last_use, found in read:
        row = expected()[name]
        if not last_use:
            print(f"{row['kind']:8}not run    {name}  {found[0]}")
            counts[row["kind"], "not run"] += 1
            continue
        rules = "A" * is_of_rule_a(last_use) + "B" * is_of_rule_b(last_use)
        line = first_line(last_use, rules)
        result = verdict(row, rules, line)
        counts[row["kind"], result] += 1
        live = last_use["live_bytes"]
        share = " ".join(
            f"{100 * last_use[key] / live:5.1f}"
            for key in ("unused_bytes", "kept_bytes", "certain_saving_bytes", "unknown_bytes")
        )
        listed = "listed" if "never_used_again" in found else "-"
        print(f"{row['kind']:8}{result:11}{rules:3}{share}  {listed:7}{name}  {line}", flush=True)
    for (kind, result), count in sorted(counts.items()):
        print(f"{kind}: {count} {result}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2:])
    else:
        main()
