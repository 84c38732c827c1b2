"""Runs `tests/reliability/kills` with few kills; the program itself can run ten thousand."""

import subprocess
import sys
from pathlib import Path


def test_a_killed_process_leaves_a_readable_file_that_lacks_less_than_a_second():
    program = Path(__file__).parent / "kills"
    ran = subprocess.run(
        [sys.executable, program, "--kills", "30", "--workers", "4"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.split()[-7:-5] for line in ran.stdout.splitlines()[1:]] == [["30", "30"]] * 2
