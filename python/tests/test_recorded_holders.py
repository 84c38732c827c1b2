"""What holds the live memory, from a recording to its report."""

from __future__ import annotations

import re
import subprocess
import sys
import time
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


def test_a_local_list_of_an_inference_without_steps_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.plim"

    def serve() -> None:
        answers = []
        for _ in range(32 + STEPS):
            with torch.inference_mode():
                answers.append(trainer.model[0](torch.randn(512, 512)))
            time.sleep(0.005)  # the recorder reads the calls in the background

    with plimsoll.record(path):
        serve()
    assert ", held by answers in " in growth(path)["title"]


def holders_of(path: Path, size_bytes: int) -> set[str | None]:
    rows = plimsoll.open(path).lifetimes.to_pydict()
    return {
        holder
        for holder, size in zip(rows["holder"], rows["size_bytes"], strict=True)
        if size == size_bytes
    }


def test_what_a_call_returns_has_no_holder_yet(tmp_path: Path) -> None:
    path = tmp_path / "run.plim"

    def serve() -> None:
        answers = []
        for _ in range(32 + STEPS):
            with torch.inference_mode():
                answers.append(trainer.model[0](torch.randn(512, 512)))
            time.sleep(0.005)

    with plimsoll.record(path):
        serve()
    holders = {each or "" for each in holders_of(path, MIB)}
    assert any(each.startswith("answers") for each in holders)
    assert not any(each.startswith("native code") for each in holders)


def fail_with_a_tensor() -> None:
    activations = torch.ones(3 * MIB // 4)
    torch.empty(1 << 50)
    del activations


def test_after_memory_has_run_out_a_step_in_the_except_block_names_the_exception(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.plim"
    with plimsoll.record(path):
        try:
            fail_with_a_tensor()
        except RuntimeError:
            plimsoll.step()
        trainer.step("nothing")
    assert holders_of(path, 3 * MIB) == {"the exception being handled.__traceback__"}


def test_locals_of_functions_that_an_exception_has_left_are_named_as_if_they_still_ran(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.plim"
    with pytest.raises(RuntimeError), plimsoll.record(path):
        fail_with_a_tensor()
    (holder,) = holders_of(path, 3 * MIB)
    assert holder is not None
    assert holder.startswith("activations in fail_with_a_tensor (test_recorded_holders.py:")


def test_a_script_that_ends_with_an_exception_names_its_locals(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "def main():\n"
        "    kept = [torch.ones(2**18)]\n"
        "    torch.empty(1 << 50)\n"
        "main()\n"
    )
    path = tmp_path / "run.plim"
    command = [sys.executable, "-m", "plimsoll", "run", "-o", str(path), str(script)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    assert holders_of(path, MIB) == {"kept[0] in main (train.py:4)"}


def test_an_alert_of_a_monitor_names_what_holds_the_memory(tmp_path: Path) -> None:
    alerts: list[Any] = []
    options = {"interval": 1, "output_dir": tmp_path, "text_log": False}
    with plimsoll.TrainingMonitor(on_alert=alerts.append, **options) as monitor:
        for _ in range(2 * STEPS):
            trainer.step("output")
            monitor.step()
    plimsoll.stop_monitoring()
    alert = next(each for each in alerts if each.holders)
    assert alert.title.endswith(f", held by {__name__}.trainer.history")
    assert alert.holders[0].is_cut
    assert alert.holders[0].bytes == alert.holders[0].count * MIB
    assert alert.next_step.startswith(f"Remove from {__name__}.trainer.history ")


TRAINING = """
import time
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
history = []
while True:
    model(torch.ones(2, 4)).sum().backward()
    history.append(torch.ones(2**18))
    time.sleep(0.2)
    optimizer.step()
    optimizer.zero_grad()
"""
INFERENCE = TRAINING.replace(".sum().backward()", "").replace("    optimizer.", "    # ")
MONITORED = TRAINING.replace(
    "while True:",
    "import plimsoll\nmonitor = plimsoll.TrainingMonitor(text_log=False)\nwhile True:",
).replace("    optimizer.zero_grad()", "    optimizer.zero_grad()\n    monitor.step()")


@pytest.mark.parametrize(
    "source", [TRAINING, INFERENCE, MONITORED], ids=["training", "inference", "monitor"]
)
def test_a_running_program_is_asked_for_its_holders(
    tmp_path: Path, plimsoll_command: str, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("PLIMSOLL_LIVE_FOLDER", str(tmp_path / "live"))
    script = tmp_path / "train.py"
    script.write_text(source)
    command = [sys.executable, "-m", "plimsoll", "run", "-o", str(tmp_path / "run.plim"), script]
    if source == MONITORED:
        command = [sys.executable, script]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as training:
        try:
            ask = [plimsoll_command, "holders", str(training.pid)]
            answers = []
            began = time.monotonic()
            while not answers or "history: list of" not in answers[-1].stdout:
                answers.append(subprocess.run(ask, capture_output=True, text=True, check=False))
                assert training.poll() is None
                assert answers[-1].stdout or "is not recorded" in answers[-1].stderr
                assert time.monotonic() - began < 120  # a monitor imports torch first
                time.sleep(0.1)
        finally:
            training.kill()
    text = answers[-1].stdout
    assert re.search(r"MiB +\d+ +history: list of \d+\n", text), text
    assert "No other reference keeps this memory" in text
    assert "→ Remove from history what is no longer needed" in text


def test_only_processes_that_are_recorded_can_be_asked(plimsoll_command: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        ask = [plimsoll_command, "holders", str(other.pid)]
        answer = subprocess.run(ask, capture_output=True, text=True, check=False)
        other.kill()
    assert answer.returncode == 3
    assert f"process {other.pid} is not recorded: start it with plimsoll run" in answer.stderr


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
