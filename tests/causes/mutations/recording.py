"""Records the variants of programs into a folder, which judging.py then judges without torch.

FOLDER/variants.jsonl has a line for each variant: `file` is its recording, or `reason` says why
there is none. FOLDER/trees has the mutated source text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.causes import registry
from tests.causes.mutations import tree

import plimsoll

UNCHANGED = "unchanged"
OF_RUNS = {"bfloat16": 1, "lengths": 2, "cuda": 1}  # versions of each, in running.py
MUTATIONS = ("sizes", "bfloat16", "lengths", "lines", "names", "wrapped", "in_place", "cuda")
VARIANTS = "variants.jsonl"
ENDED = "does not run: the process ended early"  # which a later run tries again
ALIGNMENT = 512
Row = dict[str, Any]


class Version(NamedTuple):
    """One way to apply a mutation: the folder of its source text, and its number."""

    folder: Path
    number: int
    edits: tree.Edits
    names: dict[str, str]


def rows_of(folder: Path) -> dict[tuple[str, str], Row]:
    path = folder / VARIANTS
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return {(row["program"], row["mutation"]): row for row in rows}


def is_done(row: Row | None) -> bool:
    return row is not None and row.get("reason") != ENDED


def versions(mutation: str, programs: tree.Programs, folder: Path) -> Iterator[Version]:
    """Write the source text of each version when it is needed."""
    if mutation not in tree.SOURCE_MUTATIONS:
        at = folder / "trees" / mutation
        tree.write(programs, {}, at)
        for number in range(OF_RUNS.get(mutation, 1)):
            yield Version(at, number, {}, {})
        return
    for number, edits_of in enumerate(tree.SOURCE_MUTATIONS[mutation]):
        at = folder / "trees" / f"{mutation}{number or ''}"
        edits = edits_of(programs.files)
        tree.write(programs, edits, at)
        names = tree.new_programs(programs) if mutation == "names" else {}
        yield Version(at, number, edits, names)


def run_worker(mutation: str, version: Version, folder: Path, names: list[str]) -> Iterator[Row]:
    """The answers of one process for programs, by the names that they have there."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tests.causes.mutations.worker", mutation, str(version.number)]
    paths = [str(version.folder), *(each for each in sys.path if each and each != os.getcwd())]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "PLIMSOLL_MUTATED_FROM": str(tree.CAUSES.parents[1]),
    }
    with (
        (folder / "worker.log").open("a") as log,
        subprocess.Popen(
            [*words, str(folder), *names],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=version.folder,
        ) as process,
    ):
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)


def are_sizes_odd(recording: Path) -> bool:
    """Whether a quarter of the allocated bytes is in blocks of no multiple of 512. Libraries align
    their own blocks."""
    events = plimsoll.open(recording).events.to_pydict()
    pairs = zip(events["action"], events["size_bytes"], strict=True)
    sizes = [size for action, size in pairs if action == "alloc"]
    return sum(size for size in sizes if size % ALIGNMENT) > sum(sizes) / 4


def why_not(mutation: str, answer: Row, recording: Path) -> str:
    """Why this version of a variant does not count, or ""."""
    if "error" in answer:
        return f"does not run: {answer['error']}"
    if mutation in OF_RUNS and not answer["changes"]:
        return "nothing to change"
    if mutation == "sizes" and not are_sizes_odd(recording):
        return "nothing to change: most sizes are still multiples of 512 bytes"
    return ""


def record_mutation(
    mutation: str,
    programs: tree.Programs,
    names: list[str],
    folder: Path,
    done: Callable[[Row], None],
) -> None:
    pending, reasons = dict.fromkeys(names), {}
    for version in versions(mutation, programs, folder):
        if mutation in tree.SOURCE_MUTATIONS:
            for name in [each for each in pending if not programs.count(each, version.edits)]:
                reasons.setdefault(name, "nothing to change")
                del pending[name]
        if not pending:
            break
        originals = {version.names.get(name, name): name for name in pending}
        for answer in run_worker(mutation, version, folder / mutation, list(originals)):
            name = originals[answer["program"]]
            file = Path(mutation, answer["program"].replace("/", "_") + ".plim")
            reason = why_not(mutation, answer, folder / file)
            if reason:
                reasons[name] = reason
                (folder / file).unlink(missing_ok=True)
                continue
            del pending[name]
            reasons.pop(name, None)
            row = {"program": name, "mutation": mutation, "file": str(file)}
            row |= {"tree": version.folder.name, "seconds": answer["seconds"]}
            done(row)
    for name in names:
        if name in reasons or name in pending:
            reason = reasons.get(name, ENDED)
            done({"program": name, "mutation": mutation, "reason": reason})


def record(names: list[str], mutations: list[str], folder: Path, jobs: int) -> None:
    """Record the variants that the folder does not have, and the unchanged programs."""
    folder.mkdir(parents=True, exist_ok=True)
    before = rows_of(folder)
    programs = tree.Programs(names)

    def done(row: Row) -> None:
        with (folder / VARIANTS).open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        text = row.get("reason") or f"{row['seconds']} s"
        print(f"{row['mutation']:10} {row['program']}: {text}", file=sys.stderr, flush=True)

    def record_one(mutation: str) -> None:
        missing = [name for name in names if not is_done(before.get((name, mutation)))]
        if missing:
            record_mutation(mutation, programs, missing, folder, done)

    with ThreadPoolExecutor(jobs) as pool:
        for result in [pool.submit(record_one, each) for each in (UNCHANGED, *mutations)]:
            result.result()


def planted(wanted: set[str]) -> list[str]:
    """Programs with a mistake, of these names, groups or topics; all if none is given."""
    return [
        name
        for name, row in registry.table().items()
        if (wanted & {name, name.partition("/")[0], row["topic"]})
        or (not wanted and row["finding"] != "none")
    ]
