"""Distributed runs of two processes: each rank has its own files and names its lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll._process.paths import default_path, launched_rank, of_rank

TRAIN = """
import torch, plimsoll
from torch import distributed, nn

distributed.init_process_group("gloo")
model = nn.Linear(64, 64)
epochs = plimsoll.EpochMemoryMonitor(verbose_batches=1)
with plimsoll.TrainingMonitor(interval=1, tensorboard=True, record="run.plim") as monitor:
    epochs.on_epoch_start()
    for iteration in range(3):
        epochs.on_batch_end(iteration, model(torch.randn(8, 64)).mean())
        monitor.step()
    epochs.on_epoch_end()
distributed.destroy_process_group()
"""

SPAWNED = """
import torch, torch.multiprocessing, plimsoll
from torch import distributed

def train(rank, store):
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    with plimsoll.TrainingMonitor(interval=1, tensorboard="events") as monitor:
        monitor.step()
    plimsoll.MemoryMonitor.print_memory_usage("trained:")
    distributed.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, ("file://{store}",), nprocs=2)
"""

ACCELERATED = """
import torch
from accelerate import Accelerator
from plimsoll.integrations.accelerate import AccelerateTracker

tracker = AccelerateTracker(interval=1)
accelerator = Accelerator(cpu=True, log_with=[tracker])
accelerator.init_trackers("run")
accelerator.log({"loss": 1.0}, step=0)
accelerator.end_training()
"""


def run(command: list[str], folder: Path, **environment: str) -> tuple[list[str], list[str]]:
    """The output lines of both ranks, by stream."""
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines(), ran.stderr.splitlines()


def torchrun(script: str, folder: Path, **environment: str) -> tuple[list[str], list[str]]:
    (folder / "train.py").write_text(script)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return run([*launcher, "train.py"], folder, **environment)


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(str(path.parent.relative_to(folder)) for path in folder.glob(pattern))


@pytest.mark.slow
def test_each_rank_has_its_own_log_event_file_and_trace(
    tmp_path: Path, plimsoll_command: str
) -> None:
    printed, _ = torchrun(TRAIN, tmp_path)
    assert names(tmp_path, "profiles/**/*.log") == ["profiles/rank0", "profiles/rank1"]
    assert names(tmp_path, "tensorboard/**/events*") == ["tensorboard/rank0", "tensorboard/rank1"]
    assert sorted(path.name for path in tmp_path.glob("*.plim")) == [
        "run.rank0.plim",
        "run.rank1.plim",
    ]
    for rank in range(2):
        (log,) = (tmp_path / f"profiles/rank{rank}").iterdir()
        assert f" | rank {rank} of 2\n" in log.read_text()
        mine = [line for line in printed if line.startswith(f"[rank {rank}]   ")]
        assert len(mine) == 2, printed
        assert f"[rank {rank}] Memory monitoring enabled (verbose for first 1 batch)" in printed
    assert len(printed) == 6
    analyzed = subprocess.run(
        [plimsoll_command, "analyze", "latest", "--dir", str(tmp_path)], check=False
    )
    assert analyzed.returncode == 0


@pytest.mark.slow
def test_by_option_only_the_first_rank_prints(tmp_path: Path) -> None:
    printed, _ = torchrun(TRAIN, tmp_path, PLIMSOLL_MONITOR_PRINT_RANKS="first")
    assert [line[:8] for line in printed] == ["[rank 0]"] * 3
    assert names(tmp_path, "profiles/**/*.log") == ["profiles/rank0", "profiles/rank1"]


@pytest.mark.slow
def test_ranks_without_a_launcher_are_those_of_torch_distributed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNED.replace("{store}", str(tmp_path / "store")))
    printed, _ = run(["train.py"], tmp_path)
    assert names(tmp_path, "events/**/events*") == ["events/rank0", "events/rank1"]
    # Two processes write to one pipe, so their lines may be interleaved.
    found = re.findall(r"\[rank \d\] trained:", "".join(printed))
    assert sorted(found) == ["[rank 0] trained:", "[rank 1] trained:"]


@pytest.mark.slow  # needs scripts/setup --integrations
def test_accelerate_has_its_tracker_on_the_main_process(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    torchrun(ACCELERATED, tmp_path)
    assert names(tmp_path, "profiles/**/*.log") == ["profiles/rank0"]


def test_a_folder_named_after_ranks_does_not_stand_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert of_rank("ranks/run.plim") == "ranks/run.rank1.plim"
    assert of_rank("ranks/run-rank1.plim") == "ranks/run-rank1.plim"


def test_without_a_rank_the_local_one_is_in_the_default_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "-rank1-" in default_path()


@pytest.mark.parametrize(
    ("rank", "local_rank", "expected"),
    [("3", "1", 3), ("", "1", 1), ("one", "1", 1), ("-1", "", None), ("1234567890", "0", 0)],
)
def test_the_rank_is_a_short_number(
    monkeypatch: pytest.MonkeyPatch, rank: str, local_rank: str, expected: int | None
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    assert launched_rank() == expected
