"""The overwrite proof on fake devices: streams, checkpoints, and the threads of autograd."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def verify(fake, cuda, device):
    def verify(case):
        command = Path(sys.executable).with_name("plimsoll")
        words = [command, "verify", HERE / "overwritten.py", fake._name, device, case]
        folders = [HERE, HERE.parents[2], *sys.path]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    return verify


def test_overwriting_device_memory_changes_nothing(verify):
    ran = verify("train")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = re.match(r"identical: ([\d,]+) storages, .* MiB were overwritten", ran.stdout)
    assert found, ran.stdout
    assert int(found[1].replace(",", "")) > 1000


def test_a_read_of_device_memory_without_an_operator_is_found(verify):
    ran = verify("read_by_address")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "the standard output differs" in ran.stdout
    place = r"3\.9 KiB, at .*overwritten\.py:\d+ \(read_by_address\)"
    assert re.search(rf"first storage: allocation [\d,]+, {place}", ran.stdout), ran.stdout
