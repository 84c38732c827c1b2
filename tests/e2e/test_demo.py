"""scripts/demo and the README say what is true."""

import re
import sys
from pathlib import Path

import pytest
from tests.e2e.running import Plimsoll

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "run --force -o build/demo.plim examples/language_model.py --steps 30"
REPORT = "report build/demo.plim"


@pytest.fixture(scope="module")
def report_of_demo(plimsoll: Plimsoll, tmp_path_factory) -> str:
    """What the last command of scripts/demo prints, after six steps in place of thirty."""
    trace = tmp_path_factory.mktemp("demo") / "demo.plim"
    words = ("run", "-o", trace, "examples/language_model.py", "--steps", 6)
    ran = plimsoll(*words, cwd=ROOT, env={"PLIMSOLL_PYTHON": sys.executable}, timeout=600)
    assert ran.status == 0, ran
    outcome = plimsoll("report", trace)
    assert outcome.status == 0, outcome
    return outcome.out


def words_of(report: str) -> list[str]:
    """Without numbers, times, spaces, the checkout's name, and the line that tells of the file."""
    report = re.sub(r"([\w.-]+/)?examples/", "", report)
    lines = re.sub(r"[-\d.,:]+ ?([num]?s\b|[KMG]iB|B\b|%)?", "#", report).splitlines()
    return ["".join(line.split()) for line in lines[:-1]]


def test_the_demo_runs_what_is_tested_here():
    script = (ROOT / "scripts/demo").read_text()
    assert f"plimsoll {TRAIN}\n" in script
    assert f"plimsoll {REPORT}\n" in script


def test_the_report_tells_the_story_of_the_run(report_of_demo):
    finding = report_of_demo.partition("\ncpu ")[0]
    assert "Activations are" in finding
    assert "LanguageModel.blocks.0" in finding
    assert "checkpoint" in finding
    # The categories of the peak sum to it, and nothing is unknown.
    assert "unknown" not in report_of_demo


def test_the_readme_shows_that_report(report_of_demo):
    readme = (ROOT / "README.md").read_text()
    shown = readme.partition(f"$ plimsoll {REPORT}\n")[2].partition("```")[0]
    assert words_of(shown) == words_of(report_of_demo)


def test_the_readme_knows_every_command(plimsoll):
    readme = (ROOT / "README.md").read_text()
    for line in plimsoll("--help").out.splitlines():
        if match := re.match(r"  ([a-z]+) ", line):
            assert f"| `plimsoll {match[1]}" in readme
