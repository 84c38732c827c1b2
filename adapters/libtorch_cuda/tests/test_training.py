"""Cases of tests/gpu on fake devices: torch trains there, with autograd's own device threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(
    "case", ["backward", "lite", "middle", "threads", "caught_oom", "planted_oom"]
)
def test_every_check_of_the_case_holds(fake, half, device, tmp_path, case):
    ran = subprocess.run(
        [sys.executable, str(HERE / "on_fake.py"), fake._name, str(device), case],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"check": ')]
    checks = [json.loads(line) for line in lines]
    assert checks
    assert [each for each in checks if not each["holds"]] == []
