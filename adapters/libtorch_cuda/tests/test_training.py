"""Cases of tests/gpu on fake devices: torch trains there, with autograd's own device threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def run(fake, device, folder, *case, **environment):
    ran = subprocess.run(
        [sys.executable, str(HERE / "on_fake.py"), fake._name, str(device), *case],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])} | environment,
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


@pytest.mark.parametrize(
    "case",
    [
        "backward",
        "forward_once",
        "lite",
        "middle",
        "threads",
        "streams",
        "caught_oom",
        "planted_oom",
        "oom_in_backward",
        "oom_in_optimizer",
        "oom_search",
        "samples",
        "example burgers_unet",
        "example gaussian_splatting",
        "example language_model",
    ],
)
def test_every_check_of_the_case_holds(fake, cuda, device, tmp_path, case):
    run(fake, device, tmp_path, *case.split())


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("case", ["workspaces", "lite", "backward"])
def test_workspaces_of_libraries_belong_to_no_layer(fake, device, libraries, tmp_path, case):
    run(fake, device, tmp_path, case, FAKE_TORCH_CUDA=str(libraries))


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("pids", ["ours", "another's"])
def test_the_device_bar_closes(fake, device, drivers, tmp_path, pids):
    script = tmp_path / "nvml"
    script.write_text("")
    words = {"FAKE_NVML": str(script), "FAKE_CUDA": "a" * 32, "FAKE_PIDS": pids}
    run(fake, device, tmp_path, "device_bar", "200", **drivers, **words)
