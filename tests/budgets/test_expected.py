"""Each row of expected.tsv: budget, baseline and recording, with the exit status and first line."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

with Path(__file__).with_name("expected.tsv").open(newline="") as table:
    CASES = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_budget(case, project, net):
    project.write("run.json", case["recording"])
    if case["baseline"] != "-":
        project.write("base.json", case["baseline"])
    outcome = net(case["budget"])
    assert outcome.err == ""
    assert outcome.status == int(case["exit"])
    # Join wrapped lines.
    first = re.sub(r"\n  (?! *[-→])", " ", outcome.out).splitlines()[0]
    parts = map(re.escape, case["first line"].split("…"))
    assert re.fullmatch(".*".join(parts), first), first
