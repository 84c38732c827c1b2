"""Programs with one planted cause each: the first finding names it. Clean programs: no finding
above info, and none that reports a mistake.

`python -m tests.causes.test_causes` prints how many are right.
"""

from __future__ import annotations

import csv
import functools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Findings allowed for clean programs: facts about what fills the peak, not mistakes.
FACTS = {
    "activations_dominate",
    "one_layer_dominates",
    "one_line_dominates",
    "one_tensor_dominates",
    "optimizer_state_dominates",
    "model_copies",
    "peak_outside_training",
}


def expected() -> dict[str, dict[str, str]]:
    rows = {}
    for name in (
        "expected.tsv",
        "expected_held_out.tsv",
        "expected_mechanisms.tsv",
        "expected_rare.tsv",
        "expected_cycles.tsv",
        "expected_evidence.tsv",
        "expected_everyday.tsv",
        "expected_kept.tsv",
        "expected_reported.tsv",
        "expected_without_graph.tsv",
    ):
        with Path(__file__).with_name(name).open() as table:
            rows |= {row["program"]: row for row in csv.DictReader(table, delimiter="\t")}
    return rows


def controls() -> list[str]:
    """The names of the clean programs, which a separate process lists."""
    listed = subprocess.run(
        [sys.executable, "-m", "tests.causes.record_all", "--controls"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return listed.stdout.split()


CONTROLS = controls()


def in_gate() -> set[str]:
    """The first program of each finding, and the first clean programs."""
    first = {row["finding"].split("|")[0]: name for name, row in reversed(expected().items())}
    return {*first.values(), *CONTROLS[:4]}


GATE = in_gate()


def marked(programs) -> list:
    """Parameters of a test. Programs outside the gate are marked slow."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=[] if name in GATE else slow) for name in programs]


@functools.cache
def findings_of(*programs: str) -> dict[str, dict]:
    """The findings by program. One process records all of them. A name is that of a program or of
    an architecture."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.causes.record_all", folder, *programs],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, done.stdout.splitlines())
    return {row["program"]: row for row in rows}


def answer(program: str) -> dict:
    together = sorted(GATE) if program in GATE else [program.partition("/")[0]]
    return findings_of(*together)[program]


def found(program: str) -> list[dict]:
    return answer(program)["findings"]


def peak_step_of(program: str) -> int | None:
    return answer(program)["peak_step"]


def is_right(row: dict[str, str], findings: list[dict]) -> bool:
    if not findings:
        return False
    first = findings[0]
    text = " ".join([first["title"], *first["evidence"], first["next_step"]])
    return first["id"] in row["finding"].split("|") and bool(re.search(row["names"] or "", text))


def false_alarms(findings: list[dict]) -> list[str]:
    """The growth of a model that gets new parts on purpose may be reported as a fact."""
    return [
        f["title"]
        for f in findings
        if f["severity"] != "info"
        or (f["id"] not in FACTS and not re.match(r"The model on .* grew in ", f["title"]))
    ]


def steps_of(finding: dict) -> set[str]:
    """The steps at which the evidence of a finding about the peak is taken."""
    text = " ".join([finding["title"], *finding["evidence"]])
    return set(re.findall(r"in step (\d+(?:,\d+)*)", text))


@pytest.mark.parametrize("program", marked(expected()))
def test_the_first_finding_names_the_cause(program):
    findings = found(program)
    assert is_right(expected()[program], findings), [(f["id"], f["title"]) for f in findings]


@pytest.mark.parametrize("program", marked(expected()))
def test_evidence_is_of_the_step_of_the_peak(program):
    found(program)
    for finding in found(program):
        if finding["id"] != "memory_growth":
            assert steps_of(finding) <= {str(peak_step_of(program))}, finding


# Correct for a clean program. The lengths of one grow, and oneDNN keeps memory for each new shape:
# without a recording, its resident memory grows from 220 to 1,349 MiB. The other keeps the
# gradients of each adapter after its last step.
ALSO_RIGHT = {
    "held_out_wavenet/lengths_grow": "memory_outside_tensors",
    "adapters/adapter_per_customer": "never_used_again",
}


def alarms_of(program):
    return false_alarms([f for f in found(program) if f["id"] != ALSO_RIGHT.get(program)])


@pytest.mark.parametrize("program", marked(CONTROLS))
def test_a_clean_program_has_no_finding_but_what_fills_it(program):
    assert alarms_of(program) == []


def main() -> None:
    right = 0
    for program, row in expected().items():
        findings = found(program)
        right += is_right(row, findings)
        if not is_right(row, findings):
            print(f"{program}: expected {row['finding']} {row['names']}")
            for finding in findings[:3]:
                print(f"    {finding['severity']} {finding['id']}: {finding['title']}")
    print(f"{right} of {len(expected())} causes named first")
    clean = {program: alarms_of(program) for program in CONTROLS}
    for program, alarms in clean.items():
        for alarm in alarms:
            print(f"{program}: {alarm}")
    silent = sum(not alarms for alarms in clean.values())
    print(f"{silent} of {len(clean)} clean programs without a false alarm")


if __name__ == "__main__":
    main()
