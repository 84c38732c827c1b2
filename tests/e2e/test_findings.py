"""The findings of plimsoll report, and how scripts use them."""

import re
from pathlib import Path

from .running import complains

ROOT = Path(__file__).resolve().parents[2]


def test_verdict_comes_first_and_the_file_last(plimsoll, generated):
    outcome = plimsoll("report", generated["training"])
    assert outcome.status == 0
    assert outcome.err == ""
    assert outcome.out.startswith("Nothing wrong found. Peak 23.8 GiB requested at event 16,896")
    assert "Closest to a finding: optimizer state is" in outcome.out
    assert "training.pickle" in "".join(outcome.out.splitlines()[-2:])


def test_fail_on_gives_status_1(plimsoll, planted, healthy, generated):
    assert plimsoll("report", planted, "--fail-on", "critical").status == 1
    assert plimsoll("report", planted, "--fail-on", "info").status == 1
    assert plimsoll("report", planted, "--fail-on", "out_of_memory").status == 1
    assert plimsoll("report", generated["training"], "--fail-on", "info").status == 0
    assert plimsoll("report", healthy, "--fail-on", "info").status == 1
    assert plimsoll("report", healthy, "--fail-on", "warning").status == 0
    assert plimsoll("report", planted, "--fail-on", "history_truncated").status == 0


def test_a_mistyped_id_never_passes_for_a_file_without_findings(plimsoll, healthy):
    outcome = plimsoll("report", healthy, "--fail-on", "out_of_memroy")
    complains(outcome, 2, "did you mean out_of_memory?")


def test_every_id_can_be_failed_on_and_is_documented(plimsoll):
    sources = (ROOT / "src/findings").rglob("*.cc")
    given = {
        found for source in sources for found in re.findall(r'\.id = "(\w+)"', source.read_text())
    }
    assert given
    known = set(re.findall(r"\w+", plimsoll("help", "report").out))
    documented = (ROOT / "docs/findings.md").read_text()
    assert given <= known
    assert all(f"`{name}`" in documented for name in given)
