"""The estimate of what a failed step needed, against programs that really run the rest of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ERROR = 0.1  # of the step's peak


def run(fake, device, folder, case):
    ran = subprocess.run(
        [sys.executable, str(HERE / "needs.py"), fake._name, str(device), case],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("case", "basis"),
    [
        ("growing_length", "earlier_step"),
        pytest.param("growing_batch", "earlier_step", marks=pytest.mark.slow),
        pytest.param("equal_batches", "earlier_step", marks=pytest.mark.slow),
        pytest.param("optimizer", "earlier_step", marks=pytest.mark.slow),
        pytest.param("first_step", "optimizer_state", marks=pytest.mark.slow),
        pytest.param("validation", "earlier_forward", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("cuda")
def test_the_estimate_is_the_peak_of_the_step_that_really_runs(fake, device, tmp_path, case, basis):
    found = run(fake, device, tmp_path, case)
    for each in found["runs"]:
        need = each["details"]["need"]
        assert need["basis"] == basis, each
        assert need["bytes"] == pytest.approx(found["peak"], rel=ERROR), each
