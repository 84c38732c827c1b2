"""An exception of a signal handler reaches the training loop, wherever the signal arrives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("interrupted_loops.py")
# For a long test: PLIMSOLL_TEST_SIGNALS=1000
COUNT = os.environ.get("PLIMSOLL_TEST_SIGNALS", "60")


@pytest.mark.parametrize(
    "kind", ["record", "fallback", "survey", "monitor", "monitor-fallback", "tracer"]
)
def test_no_signal_is_lost(kind, tmp_path):
    words = [sys.executable, PROGRAM, kind, tmp_path, COUNT, "1"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    reported = json.loads(ran.stdout.splitlines()[-1])
    assert reported["caught"] == reported["raised"]
    assert sum(reported["raised"].values()) >= int(COUNT)
