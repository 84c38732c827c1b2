"""Runs `tests/reliability/soak` for a short time; the program itself can run for half an hour."""

import subprocess
import sys
from pathlib import Path


def test_a_program_computes_the_same_while_recordings_start_and_stop():
    program = Path(__file__).parent / "soak"
    ran = subprocess.run(
        [sys.executable, program, "--minutes", "0", "--actions", "25"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "life 0: the same; " in ran.stdout
    assert not ran.stdout.startswith("life 0: the same; 0 files")
