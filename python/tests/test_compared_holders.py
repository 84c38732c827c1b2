"""What holds memory, in comparisons and on pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import plimsoll

MIB = 2**20
STEPS = 24
HOSTILE = "</script><b>x</b>"

# A program of its own: a walk through all objects of a test run may take too long to be complete.
PROGRAM = f"""
import sys, torch, plimsoll
path, keep = sys.argv[1:]
history, cache = [], {{{HOSTILE!r}: []}}
model = torch.nn.Linear(512, 512)
with plimsoll.record(path):
    for _ in range({STEPS}):
        output = model(torch.ones(512, 512)).relu()
        if keep == "list":
            history.append(output.detach())
        elif keep == "dict":
            cache[{HOSTILE!r}].append(output.detach()[:384].clone())
        output.sum().backward()
        model.zero_grad()
        del output
        plimsoll.step()
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same program that keeps nothing, or its results in a list, or in a dict of lists."""
    folder = tmp_path_factory.mktemp("recordings")
    paths = {keep: folder / f"{keep}.plim" for keep in ("nothing", "list", "dict")}
    for keep, path in paths.items():
        subprocess.run([sys.executable, "-c", PROGRAM, str(path), keep], check=True)
    return paths


def first_cause(difference: plimsoll.Difference) -> dict[str, Any]:
    point = difference.report["points"][0]
    assert point["name"] == "peak"
    cause: dict[str, Any] = point["causes"][0]
    return cause


def test_a_comparison_names_the_list_that_keeps_more_now(recordings: dict[str, Path]) -> None:
    difference = plimsoll.diff(recordings["nothing"], recordings["list"])
    cause = first_cause(difference)
    assert cause["held"] == "held by history now"
    assert cause["holders"][0]["path"] == "history"
    assert cause["holders"][0]["type"] == "list"
    assert cause["holders"][0]["bytes"] == pytest.approx(STEPS * MIB, rel=0.1)
    finding = difference.findings[0]
    assert finding["evidence"][0].endswith(", held by history now")
    assert finding["next_step"].startswith("Remove from history ")
    assert finding["holders"] == cause["holders"]
    back = first_cause(plimsoll.diff(recordings["list"], recordings["nothing"]))
    assert back["held"] == "was held by history"
    assert back["holders_before"][0]["path"] == "history"


def test_a_comparison_names_what_held_memory_before(recordings: dict[str, Path]) -> None:
    difference = plimsoll.diff(recordings["dict"], recordings["list"])
    held = {cause["held"] for cause in difference.report["points"][0]["causes"]}
    was = f"was held by cache['{HOSTILE}']"
    assert "held by history now" in held
    assert was in held
    assert was in " ".join(str(difference).split())


def test_a_digest_knows_no_holder_so_nothing_is_said_to_be_new(
    tmp_path: Path, recordings: dict[str, Path]
) -> None:
    digests = {}
    for keep, path in recordings.items():
        digests[keep] = tmp_path / f"{keep}.digest.json"
        plimsoll.open(path).export(digests[keep])
        assert "held" not in digests[keep].read_text(encoding="utf-8")

    def held(before: Path, after: Path) -> str:
        text: str = first_cause(plimsoll.diff(before, after))["held"]
        return text

    assert held(digests["nothing"], recordings["list"]) == "held by history"
    assert held(recordings["nothing"], digests["list"]) == ""
    assert held(digests["list"], recordings["nothing"]) == ""
    assert held(recordings["list"], digests["nothing"]) == ""


def test_a_page_has_the_tree_of_holders_with_escaped_names(
    tmp_path: Path, recordings: dict[str, Path]
) -> None:
    trace = plimsoll.open(recordings["dict"])
    page = tmp_path / "page.html"
    trace.export(page)
    text = page.read_text(encoding="utf-8")
    assert "What holds the memory" in text
    assert 'data-holder="module __main__"' in text
    assert "free without it: 1" in text
    assert "&lt;/script&gt;&lt;b&gt;x&lt;/b&gt;" in text
    assert HOSTILE not in text
    roots = [row for row in trace.report["tables"]["holders"] if row["depth"] == 0]
    assert sum(row["bytes"] for row in roots) > 0.7 * STEPS * MIB


def test_redaction_removes_the_names_of_holders_from_pages_and_comparisons(
    tmp_path: Path, recordings: dict[str, Path]
) -> None:
    redacted = tmp_path / "redacted.plim"
    words = [sys.executable, "-m", "plimsoll", "export", str(recordings["dict"]), "--redact"]
    subprocess.run([*words, "-o", str(redacted)], check=True, capture_output=True)
    page = tmp_path / "page.html"
    plimsoll.open(redacted).export(page)
    text = page.read_text(encoding="utf-8")
    assert "What holds the memory" in text
    difference = str(plimsoll.diff(recordings["nothing"], redacted))
    for name in ("cache", "&lt;b&gt;x", "<b>x"):
        assert name not in text
        assert name not in difference
    assert ", held by " in " ".join(difference.split())
