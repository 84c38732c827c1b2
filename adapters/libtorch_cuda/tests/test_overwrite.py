"""The overwrite proof on fake devices: streams, checkpoints, and the threads of autograd."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.usefixtures("cuda")
def test_overwriting_device_memory_changes_nothing(fake, device):
    command = Path(sys.executable).with_name("plimsoll")
    words = [command, "verify", HERE / "overwritten.py", fake._name, device, "train"]
    path = {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    ran = subprocess.run(
        words, env=os.environ | path, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.match(r"identical: ([\d,]+) storages, .* MiB were overwritten", ran.stdout)
    assert found, ran.stdout
    assert int(found[1].replace(",", "")) > 1000
