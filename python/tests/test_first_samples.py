"""A sample has the right roles even if it is the first and precedes the first step."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each test starts a process with torch


@pytest.mark.parametrize("way", ["full", "lite", "survey", "breakdown", "fallback"])
def test_every_sample_has_the_bytes_of_each_role(tmp_path, way):
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("first_samples.py")), way],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    samples = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len({each["program"] for each in samples}) == (5 if way == "fallback" else 6)
    for each in samples:
        assert each["found"] == each["is"], each["program"]
