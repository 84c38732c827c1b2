"""`log_tensor_memory_breakdown`: its default interval, and its text log."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import plimsoll

MB = 1024 * 1024


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


class Writer:
    """A stub of SummaryWriter that stores the calls."""

    def __init__(self) -> None:
        self.scalars: dict[tuple[str, int], float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars[tag, global_step] = scalar_value


def test_the_breakdown_has_500_iterations_between_samples_by_default() -> None:
    writer = Writer()
    for iteration in (0, 50, 499, 500, 750, 1000):
        plimsoll.log_tensor_memory_breakdown(writer, iteration)
    assert {step for _, step in writer.scalars} == {0, 500, 1000}


def test_the_breakdown_appends_to_a_log_file(tmp_path: Path, plimsoll_command: str) -> None:
    path = tmp_path / "new" / "tensor_profile_a.log"
    kept = torch.zeros(1 << 18)
    for iteration in range(0, 40, 10):
        plimsoll.log_tensor_memory_breakdown(None, iteration, interval=20, log_file=str(path))
    plimsoll.log_tensor_memory_breakdown(Writer(), 40, 20, path)
    text = path.read_text()
    assert text.startswith("# Plimsoll tensor profile, format 1.")
    assert text.count("# Plimsoll tensor profile") == 1
    assert re.findall(r"=== Iteration (\d+) ", text) == ["0", "20", "40"]
    allocated = [re.search(r"Allocated: ([\d.]+) MB", x) for x in text.splitlines() if "ted:" in x]
    assert all(found and float(found[1]) >= kept.nbytes / MB for found in allocated)
    assert len(allocated) == 3
    words = [plimsoll_command, "analyze", str(path), "--json"]
    source = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["source"]
    assert (source["snapshots"], source["unread_lines"]) == (3, 0)


def test_the_breakdown_writes_into_an_open_file(tmp_path: Path) -> None:
    with (tmp_path / "theirs.log").open("w") as file:
        file.write("the user's own line\n")
        for iteration in (0, 1):
            plimsoll.log_tensor_memory_breakdown(None, iteration, interval=1, log_file=file)
    text = (tmp_path / "theirs.log").read_text()
    assert text.startswith("the user's own line\n=== Iteration 0 ")
    assert text.count("=== Iteration ") == 2
    with (tmp_path / "empty.log").open("w") as file:
        plimsoll.log_tensor_memory_breakdown(None, 0, interval=1, log_file=file)
    assert (tmp_path / "empty.log").read_text().startswith("# Plimsoll tensor profile")


def test_a_path_that_is_not_text_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for iteration in range(2):
        plimsoll.log_tensor_memory_breakdown(None, iteration, 1, f"{tmp_path}/\udcff.log")
    (line,) = capsys.readouterr().err.splitlines()
    assert "\\udcff.log" in line


def test_a_log_file_that_cannot_be_written_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "closed.log").open("w") as closed:
        pass
    for log_file in (str(tmp_path), closed, sys.stdin):
        for iteration in range(3):
            plimsoll.log_tensor_memory_breakdown(None, iteration, interval=1, log_file=log_file)
        said = capsys.readouterr().err
        assert said.count("plimsoll: text log: cannot write ") == 1, said


class BrokenWriter:
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        raise OSError(28, "No space left on device")


def test_a_writer_that_raises_is_reported_once_and_training_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for iteration in range(3):
        plimsoll.log_tensor_memory_breakdown(BrokenWriter(), iteration, interval=1)
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed == (
        "plimsoll: BrokenWriter.add_scalar raised OSError: [Errno 28] No space left on device"
    )


def test_each_rank_appends_to_a_separate_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        for log in ("memory.log", f"rank{rank}.log", "lora_rank8.log"):
            plimsoll.log_tensor_memory_breakdown(None, 0, interval=1, log_file=tmp_path / log)
    names = {path.name for path in tmp_path.iterdir()}
    whole = {"rank0.log", "rank1.log"}
    parts = {f"{stem}.{end}" for stem in ("memory", "lora_rank8") for end in whole}
    assert names == whole | parts


def test_an_empty_section_is_refused() -> None:
    with pytest.raises(plimsoll.InvalidArgumentError, match="section=''"):
        plimsoll.log_tensor_memory_breakdown(Writer(), 0, section="")
