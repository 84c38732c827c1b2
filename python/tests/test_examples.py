"""`python -m plimsoll.examples`: every demonstration runs and prints the expected lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll import examples

LINES = {
    "simple_measurements": ["After model creation: CPU: # | CPU tensors: #"],
    "multi_checkpoint_tracking": [
        "[Memory] summary",
        "  initialization:           CPU #, CPU tensors #",
    ],
    "context_managers": ["[Memory] loading dataset: CPU #, CPU tensors #"],
    "decorators": ["[Memory] training epoch: CPU #, CPU tensors #", "         Peak CPU tensors: #"],
    "epoch_monitoring": [
        "Memory monitoring enabled (verbose for first 3 batches)",
        "  Batch 0: CPU tensors #, CPU #, loss=#",
        "  Epoch end: CPU tensors # allocated, peak #",
    ],
    "batch_profiling": ["    Memory profile:", "      forward → backward: CPU tensors # (#)"],
}


@pytest.mark.slow
def test_all_demonstrations_run_as_a_program(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "plimsoll.examples"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )
    assert re.findall(r"^=== (\d)\. ", ran.stdout, re.MULTILINE) == list("123456")
    parts = ran.stdout.split("=== ")[1:]
    for wanted, part in zip(LINES.values(), parts, strict=True):
        text = re.sub(r"[-+]?[\d.]+ MB|(?<=loss=)[\d.]+", "#", part)
        assert set(wanted) <= set(text.splitlines())
    assert len(re.findall("Memory profile:", ran.stdout)) == 2  # disabled for the third batch
    assert not list(tmp_path.iterdir())


def test_each_demonstration_has_a_name() -> None:
    assert list(examples.DEMONSTRATIONS) == list(LINES)


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        examples.main(["decorator"])
    assert "no demonstration 'decorator'; choose from: simple_meas" in capsys.readouterr().err
