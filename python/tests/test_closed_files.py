"""Plimsoll's files stay intact if a program closes files that it did not open, as daemons do."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os
import torch, plimsoll
{begin}
torch.ones(1000)
os.closerange(3, 2000)
mine = [open(f"mine{{i}}.txt", "w") for i in range(8)]
kept = []
for step in range(200):
    kept.append(torch.ones(1000) + step)
    {step}
{write}
for file in mine:
    file.write("six by")
    file.close()
{end}
print("went on")
"""
RECORDED = {
    "begin": 'recording = plimsoll.record("run.plim").start()',
    "step": "plimsoll.step()",
    "write": "recording.flush()",
    "end": "recording.stop()",
}
MONITORED = {
    "begin": 'monitor = plimsoll.TrainingMonitor(interval=1, tensorboard="true")',
    "step": "monitor.step()",
    "write": "",  # each step has already written
    "end": "monitor.close()",
}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(RECORDED, id="record"),
        pytest.param(MONITORED, id="monitor", marks=pytest.mark.slow),
    ],
)
def test_files_of_the_program_have_what_it_wrote(words: dict[str, str], tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(**words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert "went on" in ran.stdout
    for file in tmp_path.glob("mine*.txt"):
        assert file.read_text() == "six by", file
