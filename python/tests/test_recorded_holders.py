"""What holds the live memory, from a recording to its report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import plimsoll

MIB = 2**20
STEPS = 24


class Trainer:
    """Keeps what `keep` makes of each step's output and loss."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.history: list[object] = []

    def step(self, keep: str) -> None:
        output = self.model[0](torch.randn(512, 512))
        loss = self.model[1](output).square().mean()
        loss.backward(retain_graph=keep == "graph")
        self.optimizer.step()
        self.optimizer.zero_grad()
        if keep == "graph":
            self.history.append(loss)
        elif keep == "output":
            self.history.append(output.detach())


trainer: Trainer


def growth(path: Path) -> dict[str, Any]:
    (finding,) = (f for f in plimsoll.open(path).findings if f["id"] == "memory_growth")
    return finding


@pytest.fixture(autouse=True)
def _new_trainer() -> Iterator[None]:
    global trainer
    trainer = Trainer()
    yield
    del trainer


@pytest.mark.parametrize("keep", ["graph", "output"])
def test_a_list_that_keeps_something_of_each_step_is_named_and_cutting_it_frees_it(
    tmp_path: Path, keep: str
) -> None:
    path = tmp_path / "run.plim"
    with plimsoll.record(path):
        for _ in range(STEPS):
            trainer.step(keep)
            plimsoll.step()
    finding = growth(path)
    assert finding["title"].endswith(f", held by {__name__}.trainer.history")
    holder = finding["holders"][0]
    assert (holder["type"], holder["length"]) == ("list", STEPS)
    assert holder["is_cut"]
    assert holder["left_bytes"] == 0
    assert holder["freed_bytes"] == pytest.approx(STEPS * MIB * (2 if keep == "graph" else 1), 0.1)
    edit = "Add x.detach(), or x.item(), to " if keep == "graph" else "Remove from "
    assert finding["steps"][0]["text"].startswith(f"{edit}{__name__}.trainer.history ")
    assert finding["steps"][0]["saving_bytes"] > 0.9 * holder["freed_bytes"]
    assert any(line.startswith(f"After step {STEPS}, ") for line in finding["evidence"])


def test_a_local_list_is_named_although_it_is_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.plim"

    def train() -> None:
        kept = []
        for _ in range(STEPS):
            trainer.step("nothing")
            kept.append(torch.ones(MIB // 4).mul(2))
            plimsoll.step()

    with plimsoll.record(path):
        train()
    title = growth(path)["title"]
    assert ", held by kept in " in title
    assert "train (test_recorded_holders.py:" in title


def test_a_run_that_does_not_grow_names_no_holder(tmp_path: Path) -> None:
    path = tmp_path / "run.plim"
    with plimsoll.record(path):
        for _ in range(STEPS):
            trainer.step("nothing")
            plimsoll.step()
    assert not any(finding["holders"] for finding in plimsoll.open(path).findings)


def test_holders_are_found_when_asked(tmp_path: Path) -> None:
    kept = {"mask": torch.ones(MIB)}
    with plimsoll.record(tmp_path / "run.plim") as recording:
        kept["more"] = torch.ones(MIB)
        rows = recording.holders()
    of_kept = [row for row in rows if row["key"].startswith("kept['")]
    assert sorted(row["bytes"] for row in of_kept) == [4 * MIB, 4 * MIB]
    with pytest.raises(plimsoll.InvalidArgumentError, match="does not run"):
        recording.holders()


def test_without_the_compiled_adapter_there_are_none(tmp_path: Path) -> None:
    with plimsoll.record(tmp_path / "run.plim", adapter="python") as recording:
        kept = torch.ones(MIB)
        assert recording.holders() == []
    assert kept.numel() == MIB
