"""What the tests across rooms share: where the samples lie, and which command is under test."""

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def samples() -> Path:
    """The real files that are too big for the repository."""
    folder = Path(os.environ.get("PLIMSOLL_SAMPLES", ROOT.parent / "shared" / "samples"))
    if not folder.is_dir():
        pytest.skip(f"no samples in {folder} (set PLIMSOLL_SAMPLES)")
    return folder


@pytest.fixture(scope="session")
def plimsoll_command() -> str:
    """The command, as pip installed it beside this Python, or else as the dev preset built it."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("plimsoll", path=beside) or shutil.which(
        "plimsoll", path=str(ROOT / "build/dev/src/cli")
    )
    if found is None:
        pytest.skip("plimsoll is not built: run scripts/test cpp, or pip install .")
    return found
