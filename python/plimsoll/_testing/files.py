"""Paths of the files that belong to a test: its baseline, and its trace if it fails."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

FOLDER = ".plimsoll"
_MOST_CHARACTERS = 150  # of a name; file systems allow 255 bytes


def baseline_path(root: Path, test_id: str) -> Path:
    """Return the baseline of a test, such as ``.plimsoll/tests/test_model.py/test_step.json``."""
    return root / FOLDER / f"{_name(test_id)}.json"


def trace_path(root: Path, test_id: str) -> Path:
    """Return the path of the trace of a test."""
    return traces_folder(root) / f"{_name(test_id)}.plim"


def traces_folder(root: Path) -> Path:
    """Return the folder of the latest session's traces."""
    return root / FOLDER / "traces"


def make_traces_folder(root: Path) -> Path:
    """Create the folder of traces, with a ``.gitignore`` that excludes its contents."""
    folder = traces_folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def _name(test_id: str) -> str:
    """Return a relative path that is unique to the test."""
    file, _, test = test_id.partition("::")
    parts = [part for part in Path(file).parts if part not in ("/", "..")]
    wanted = test.replace("::", ".")
    name = re.sub(r"[^\w.\[\]=,+-]", "_", wanted)[:_MOST_CHARACTERS]
    if name != wanted or Path(*parts) != Path(file):
        name += f"-{hashlib.sha256(test_id.encode()).hexdigest()[:12]}"
    return str(Path(*parts, name))
