"""Programs with one planted cause each: the first finding names it. Clean programs: no finding
above info, and none that reports a mistake.

`python -m tests.causes.test_causes [TOPIC|GROUP|PROGRAM...]` prints how many are right.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.causes import registry

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


def in_gate() -> set[str]:
    """The first program of each finding, and the first clean programs."""
    first = {row["finding"].split("|")[0]: name for name, row in reversed(PLANTED.items())}
    return {*first.values(), *CLEAN[:4]}


PLANTED, CLEAN = registry.planted(), registry.clean()
GATE = in_gate()


def marked(programs) -> list:
    """Parameters of a test. Programs outside the gate are marked slow. main() measures scripts, of
    which some are wrong."""
    slow = pytest.mark.slow
    names = [name for name in programs if name not in registry.SCRIPTS]
    return [pytest.param(name, marks=[] if name in GATE else slow) for name in names]


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


def recorded_with(program: str) -> list[str]:
    """The programs that one process records: a group, or the scripts of a topic."""
    if program in GATE:
        return sorted(GATE)
    group = program.partition("/")[0]
    if group != "scripts":
        return [group]
    topic = registry.table()[program]["topic"]
    return [name for name in registry.SCRIPTS if registry.table()[name]["topic"] == topic]


def answer(program: str) -> dict:
    result = findings_of(*recorded_with(program))[program]
    if "missing" in result:
        pytest.skip(result["missing"])
    return result


def found(program: str) -> list[dict]:
    return answer(program)["findings"]


def peak_step_of(program: str) -> int | None:
    return answer(program)["peak_step"]


def source_of(program: str, finding: dict) -> list[str]:
    """The source text of each line of a script that a finding names, as `plimsoll report` prints
    it."""
    if program not in registry.SCRIPTS:
        return []
    path = registry.SCRIPTS[program]
    lines = path.read_text().splitlines()
    text = " ".join([finding["title"], *finding["evidence"]])
    return [lines[int(number) - 1] for number in re.findall(rf"{path.name}:(\d+)", text)]


def is_right(program: str, findings: list[dict]) -> bool:
    if not findings:
        return False
    row, first = PLANTED[program], findings[0]
    steps = [first["next_step"], *(step["text"] for step in first.get("steps", [])[1:])]
    words = [first["title"], *first["evidence"], *source_of(program, first), *steps]
    matches = re.search(row["names"] or "", " ".join(words))
    return first["id"] in row["finding"].split("|") and bool(matches)


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


@pytest.mark.parametrize("program", marked(PLANTED))
def test_the_first_finding_names_the_cause(program):
    findings = found(program)
    assert is_right(program, findings), [(f["id"], f["title"]) for f in findings]


@pytest.mark.parametrize("program", marked(PLANTED))
def test_evidence_is_of_the_step_of_the_peak(program):
    found(program)
    for finding in found(program):
        if finding["id"] != "memory_growth":
            assert steps_of(finding) <= {str(peak_step_of(program))}, finding


SIZE = r"([\d.]+ (?:B|[KMGT]iB))"
GROWING_LINE = re.compile(
    rf"(?P<line>\S+:\d+ \(\S+\))(?:, called from (?P<caller>\S+:\d+ \(\S+\)))?: {SIZE} a step"
    rf".* It holds {SIZE} at the end of step [\d,]+ and {SIZE} at the end of step [\d,]+"
)


def bytes_of(text: str) -> float:
    number, unit = text.split()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)


def is_rounded(text: str, size: float) -> bool:
    return abs(bytes_of(text) - size) <= max(1, bytes_of("0.051 " + text.split()[1]))


def differences_from_table(finding: dict, table: list[dict]) -> list[str]:
    """What a finding of growth states otherwise than the table `growth` of the same report."""
    wrong = []
    for line in filter(None, map(GROWING_LINE.match, finding["evidence"])):
        place = (line["line"], line["caller"] or "")
        rows = [row for row in table if (row["line"], row["caller"]) == place]
        names = ("bytes_per_step", "first_bytes", "last_bytes")
        is_equal = rows and all(map(is_rounded, line.groups()[2:], (rows[0][n] for n in names)))
        wrong += [] if is_equal else [line.string]
    if sums := re.search(rf"grows by {SIZE} a step.*, by {SIZE} in this", finding["title"]):
        rows = [row for row in table if row["is_certain"]]
        for text, name in zip(sums.groups(), ("bytes_per_step", "grown_bytes"), strict=True):
            if not is_rounded(text, sum(row[name] for row in rows)):
                wrong.append(f"{finding['title']}: {name}")
    return wrong


@pytest.mark.parametrize(
    "program", marked(name for name in PLANTED if "memory_growth" in PLANTED[name]["finding"])
)
def test_growth_equals_its_table(program):
    for finding in found(program):
        if finding["id"] == "memory_growth":
            assert differences_from_table(finding, answer(program)["growth"]) == []


# `allowed` in expected.tsv is right for a clean program. The lengths of lengths_grow grow, and
# oneDNN keeps memory for each new shape: without a recording, its resident memory grows from 220 to
# 1,349 MiB. adapter_per_customer keeps the gradients of each adapter after its last step.
def alarms_of(program):
    allowed = registry.table()[program]["allowed"].split("|")
    others = [each for each in found(program) if each["id"] not in allowed]
    if program in registry.SCRIPTS:  # which were written with any fact allowed
        return [each["title"] for each in others if each["severity"] != "info"]
    return false_alarms(others)


@pytest.mark.parametrize("program", marked(CLEAN))
def test_a_clean_program_has_no_finding_but_what_fills_it(program):
    assert alarms_of(program) == []


def test_every_program_has_a_row():
    assert set(registry.SCRIPTS) <= set(registry.table())
    listed = subprocess.run(
        [sys.executable, "-c", "from tests.causes import registry; print(*registry.load())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert set(listed.stdout.split()) == set(registry.table())


def chosen(programs, wanted: set[str]) -> list[str]:
    """Those of a wanted name, group or topic that can be recorded here."""
    return [
        name
        for name in programs
        if not wanted or wanted & {name, name.partition("/")[0], registry.table()[name]["topic"]}
        if "missing" not in findings_of(*recorded_with(name))[name]
    ]


def main() -> None:
    wanted = set(sys.argv[1:])
    planted, clean = chosen(PLANTED, wanted), chosen(CLEAN, wanted)
    right = 0
    for program in planted:
        findings = found(program)
        right += is_right(program, findings)
        if not is_right(program, findings):
            row = PLANTED[program]
            print(f"{program}: expected {row['finding']} {row['names']}")
            for finding in findings[:3]:
                print(f"    {finding['severity']} {finding['id']}: {finding['title']}")
    print(f"{right} of {len(planted)} causes named first")
    alarms = {program: alarms_of(program) for program in clean}
    for program, titles in alarms.items():
        for title in titles:
            print(f"{program}: {title}")
    silent = sum(not titles for titles in alarms.values())
    print(f"{silent} of {len(clean)} clean programs without a false alarm")


if __name__ == "__main__":
    main()
