"""scripts/demo, the README and docs/report.md show what the command really prints."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.e2e.running import Plimsoll, complains

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/images/report.svg"  # in the README
TRAIN = "run --force -o build/demo.plim examples/language_model.py --steps 30"
REPORT = "report build/demo.plim"


@pytest.fixture(scope="module")
def trace_of_demo(plimsoll: Plimsoll, tmp_path_factory) -> Path:
    """The recording of scripts/demo, with six steps instead of thirty."""
    trace = tmp_path_factory.mktemp("demo") / "demo.plim"
    # Whether `auto` observes all steps depends on the clock.
    words = ("run", "--uses", "always", "-o", trace, "examples/language_model.py", "--steps", 6)
    ran = plimsoll(*words, cwd=ROOT, env={"PLIMSOLL_PYTHON": sys.executable}, timeout=600)
    assert ran.status == 0, ran
    outcome = plimsoll("report", "--full", trace)
    counted = re.search(r": ([\d,]+) events, peak", ran.err)
    assert counted, ran.err
    assert f" {counted[1]} events \u00b7 took" in outcome.out  # run and report count the same
    return trace


@pytest.fixture(scope="module")
def report_of_demo(plimsoll: Plimsoll, trace_of_demo: Path) -> str:
    """The report of the demo with all its tables."""
    outcome = plimsoll("report", "--full", trace_of_demo)
    assert outcome.status == 0, outcome
    return outcome.out


def words_of(report: str) -> list[str]:
    """Remove numbers, times, spaces, the checkout's name, and the last part (the file's name)."""
    report = re.sub(r"([\w.-]+/)?examples/", "", report)
    report = report.rstrip().rpartition("\n\n")[0]
    lines = re.sub(r"[-\d.,:]+ ?([num]?s\b|[KMG]iB|B\b|%)?", "#", report).splitlines()
    return ["".join(line.split()) for line in lines]


def test_the_demo_runs_what_is_tested_here():
    script = (ROOT / "scripts/demo").read_text()
    assert f"plimsoll {TRAIN}\n" in script
    assert f"plimsoll {REPORT}\n" in script


@pytest.mark.slow
def test_the_report_explains_the_run(report_of_demo):
    finding = report_of_demo.partition("\ncpu ")[0]
    assert "Activations are" in finding
    assert "LanguageModel.blocks.0" in finding
    assert "checkpoint" in finding
    # The categories of the peak sum to it, and nothing is unknown.
    assert "unknown" not in report_of_demo


def shown_in(page: str, command: str) -> list[str]:
    text = (ROOT / page).read_text()
    return words_of(text.partition(f"$ plimsoll {command}\n")[2].partition("```")[0])


@pytest.mark.slow
def test_the_docs_show_that_report(report_of_demo):
    assert shown_in("docs/report.md", f"{REPORT} --full") == words_of(report_of_demo)


@pytest.mark.slow
def test_the_readme_shows_it_in_brief(plimsoll, trace_of_demo):
    outcome = plimsoll("report", trace_of_demo)
    assert outcome.status == 0, outcome
    assert shown_in("README.md", REPORT) == words_of(outcome.out)


def test_the_readme_knows_every_command(plimsoll):
    readme = (ROOT / "README.md").read_text()
    for line in plimsoll("--help").out.splitlines():
        if match := re.match(r"  ([a-z]+) ", line):
            assert f"| `plimsoll {match[1]}" in readme


def text_of_picture() -> str:
    lines: dict[float, str] = {}
    for text in ElementTree.parse(PICTURE).iter("{http://www.w3.org/2000/svg}text"):
        y = float(text.get("y", 0))
        lines[y] = lines.get(y, "") + (text.text or "").replace("\xa0", " ")
    return "\n".join(lines[y] for y in sorted(lines))


@pytest.mark.slow
def test_plimsoll_demo_finds_the_mistake_that_is_planted_in_it(plimsoll, tmp_path):
    env = {"PLIMSOLL_PYTHON": sys.executable}
    tmp_path = tmp_path / "work/demo"  # the folder in the README's picture
    tmp_path.mkdir(parents=True)
    script, trace = tmp_path / "plimsoll-demo.py", tmp_path / "plimsoll-demo.plim"
    page = tmp_path / "plimsoll-demo.html"
    for _ in range(2):  # the second run replaces the files of the first
        ran = plimsoll("demo", cwd=tmp_path, env=env, timeout=600)
        assert ran.status == 0, ran
        assert re.search(r"^CRITICAL .*\bgrow", ran.out, re.M), ran.out
        lines = script.read_text().splitlines()
        mistake = next(i for i, line in enumerate(lines, 1) if "validation_loss = " in line)
        evidence = ran.out.split("CRITICAL ")[1].partition("\n  - ")[2].splitlines()[0]
        assert f"plimsoll-demo.py:{mistake} (train)" in evidence, ran.out
        assert "$ plimsoll report plimsoll-demo.plim\n" in ran.out
        assert "$ plimsoll report plimsoll-demo.plim --html plimsoll-demo.html" in ran.out
        assert sorted(tmp_path.iterdir()) == [page, trace, script]
        assert page.read_text().startswith("<!doctype html>")
    finding = (
        ran.out.partition("$ plimsoll report plimsoll-demo.plim\n")[2].lstrip().split("\n\n")[0]
    )
    shown = "".join(words_of(f"{text_of_picture()}\n\n{trace.name}"))
    words = "".join(words_of(f"{finding}\n\n{trace.name}"))
    assert words.startswith("CRITICAL")
    assert words in shown
    shipped = script.read_text()
    corrected = shipped.replace("validation_losses.append(validation_loss)", "pass")
    script.write_text(corrected)
    words = ("run", "-o", "fixed.plim", script)
    assert plimsoll(*words, cwd=tmp_path, env=env, timeout=600).status == 0
    assert " grows by " not in plimsoll("report", "fixed.plim", cwd=tmp_path).out
    complains(plimsoll("demo", cwd=tmp_path, env=env), 2, "plimsoll-demo.py exists")
    assert script.read_text() == corrected
    script.unlink()
    trace.write_text("a file of mine")
    complains(plimsoll("demo", cwd=tmp_path, env=env), 2, "plimsoll-demo.plim exists")
    assert trace.read_text() == "a file of mine"
    trace.unlink()
    page.write_text("a page of mine")
    complains(plimsoll("demo", cwd=tmp_path, env=env), 2, "plimsoll-demo.html exists")
    assert page.read_text() == "a page of mine"
