"""scripts/demo and the README say what is true."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE_BY_DEMO = ("plimsoll_snapshot_generator planted build/demo.pickle", "report build/demo.pickle")


@pytest.fixture(scope="module")
def report_of_demo(plimsoll, snapshot_generator, tmp_path_factory) -> str:
    """What the last command of scripts/demo prints, without building a release for it."""
    folder = tmp_path_factory.mktemp("demo")
    subprocess.run([snapshot_generator, "planted", folder / "demo.pickle"], check=True)
    outcome = plimsoll("report", "demo.pickle", cwd=folder)
    assert outcome.status == 0, outcome
    return outcome.out.replace("demo.pickle", "build/demo.pickle")


def findings(text: str) -> str:
    """The verdicts: all that stands before the first device."""
    return text.partition("\ncuda:0  ")[0]


def test_the_demo_runs_what_is_tested_here():
    script = (ROOT / "scripts/demo").read_text()
    for command in MADE_BY_DEMO:
        assert command in script


def test_the_findings_name_both_planted_problems(report_of_demo):
    assert "evaluate.py:57" in findings(report_of_demo)
    assert "train.py:91" in findings(report_of_demo)


def test_the_readme_shows_that_report(report_of_demo):
    readme = (ROOT / "README.md").read_text()
    shown = readme.partition("$ build/release/src/cli/plimsoll report build/demo.pickle\n")[2]
    shown = shown.partition("```")[0]
    without_time = re.compile(r"took [0-9.]+ \w+")
    assert without_time.sub("took", shown) == without_time.sub("took", report_of_demo)


def test_the_readme_knows_every_command(plimsoll):
    readme = (ROOT / "README.md").read_text()
    for line in plimsoll("--help").out.splitlines():
        if match := re.match(r"  ([a-z]+) ", line):
            assert f"| `plimsoll {match[1]}" in readme
