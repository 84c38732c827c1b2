"""Advice saves what it promises, within 10 %; docs/measured-savings.md lists the figures."""

import re
from pathlib import Path

import pytest
from tests.causes.advice import ADVICE, MIB, NOT_MEASURED, apply

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "measured-savings.md").read_text()
FINDINGS = (DOCS / "findings.md").read_text()


def documented() -> dict[str, tuple[str, float, float]]:
    rows = re.findall(r"^\| `(\S+/\S+)` \| `(\w+)` \| ([\d.]+) MiB \| ([\d.]+) MiB \|$", PAGE, re.M)
    return {program: (name, float(a) * MIB, float(b) * MIB) for program, name, a, b in rows}


@pytest.mark.parametrize("program", ADVICE)
def test_advice_saves_what_it_promises(program, tmp_path):
    promised, measured = apply(program, tmp_path)
    assert promised > 0
    assert promised == pytest.approx(measured, rel=0.1)
    assert documented()[program] == (
        ADVICE[program][0],
        pytest.approx(promised, rel=0.1, abs=MIB / 10),
        pytest.approx(measured, rel=0.1, abs=MIB / 10),
    )


def test_every_finding_is_measured_or_has_a_reason():
    table = FINDINGS.partition("## All findings")[2].partition("\n## ")[0]
    ids = set(re.findall(r"^\| `(\w+)` \|", table, re.M))
    measured = {name for name, _ in ADVICE.values()}
    assert measured | set(NOT_MEASURED) == ids
    assert not measured & set(NOT_MEASURED)
    assert documented().keys() == ADVICE.keys()
    assert all(f"| `{name}` | {reason} |" in PAGE for name, reason in NOT_MEASURED.items())
