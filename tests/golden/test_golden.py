"""The exact output of `plimsoll`.

Each .txt file here is one case: a recording (`generated: PRESET` of the snapshot generator,
`handwritten: RECIPE` of handwritten.py, or `compat: NAME` of tests/compat), the question (what
follows `plimsoll report FILE`), and the expected text. `pytest tests/golden --bless` rewrites the
texts: read the difference before you commit it.
"""

import os
import pickle
import re
import subprocess
import unicodedata
from pathlib import Path

import pytest

from . import handwritten

CASES = sorted(Path(__file__).parent.glob("*.txt"))
COMPAT = Path(__file__).parents[1] / "compat"
MOST_LINES = 60


@pytest.fixture(scope="session")
def recordings(generated, tmp_path_factory):
    """A folder with all recordings that cases may name."""
    folder = tmp_path_factory.mktemp("golden")
    for name, path in generated.items():
        (folder / f"{name}.pickle").symlink_to(path)
    for name, make in handwritten.RECIPES.items():
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(make(), protocol=4))
    for path in COMPAT.glob("*.plimsoll"):
        (folder / path.name).symlink_to(path)
    return folder


def read(case: Path) -> tuple[str, str, str]:
    """The recording's file, the question and the expected answer."""
    head, _, expected = case.read_text(encoding="utf-8").partition("\n---\n")
    fields = dict(
        line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in head.split("\n")
    )
    if "compat" in fields:
        name = f"{fields['compat']}.plimsoll"
    else:
        name = f"{fields.get('generated') or fields['handwritten']}.pickle"
    return name, fields.get("question", ""), expected


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_golden(case, plimsoll_command, recordings, request):
    recording, question, expected = read(case)
    ran = subprocess.run(
        [plimsoll_command, "report", "--full", recording, *question.split()],
        cwd=recordings,
        env=dict(os.environ, NO_COLOR="1"),
        capture_output=True,
        check=False,
    )
    assert ran.stderr == b""
    answer = re.sub(r"took [0-9.]+ \w+", "took a moment", ran.stdout.decode())
    if request.config.getoption("--bless") and answer != expected:
        head = case.read_text(encoding="utf-8").partition("\n---\n")[0]
        case.write_text(f"{head}\n---\n{answer}", encoding="utf-8")
        expected = answer
    assert answer == expected
    assert max(map(width, answer.splitlines())) <= 100
    assert len(answer.splitlines()) <= MOST_LINES
