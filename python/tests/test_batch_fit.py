"""The batch size that would fit: predicted from one batch size, checked with a measured peak."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import plimsoll


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def train(batch_size: int, steps: int, folder: Path, **options: object) -> str:
    """Train with this batch size; return the text log."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 32 * 32, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters())
    with plimsoll.TrainingMonitor(
        output_dir=str(folder), interval=1, profile_tensors=True, alerts=False, **options
    ) as monitor:
        for _ in range(steps):
            loss = net(torch.randn(batch_size, 3, 32, 32)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss, batch_size=batch_size)
    return Path(monitor.text_log_path).read_text()


def last(log: str, key: str) -> str:
    return re.findall(rf"^{key}: (.*)$", log, re.MULTILINE)[-1]


def at_peak(log: str) -> dict[str, float]:
    """The live memory at the last peak, in MB by role."""
    pairs = (part.rsplit(" ", 2) for part in last(log, "At peak").split(", "))
    return {name: float(size) for name, size, _ in pairs}


@pytest.mark.slow
def test_a_prediction_from_one_batch_is_the_peak_of_another(tmp_path: Path) -> None:
    log = train(64, 4, tmp_path / "a")
    assert "| batch 64 ===" in log
    reported = at_peak(log)
    peak = float(last(log, "Peak").removesuffix(" MB"))
    assert sum(reported.values()) == pytest.approx(peak, abs=0.01)
    roles = ("parameter", "gradient", "optimizer_state", "buffer")
    fixed = sum(reported.get(role, 0) for role in roles)
    assert reported["parameter"] == pytest.approx(4 * (16 * 32 * 32 * 64 + 3562) / 2**20, abs=0.2)
    assert reported["optimizer_state"] == pytest.approx(2 * reported["parameter"], rel=0.01)
    for batch in (48, 96, 128):
        other = train(batch, 4, tmp_path / f"{batch}")
        measured = float(last(other, "Peak").removesuffix(" MB"))
        predicted = fixed + (peak - fixed) / 64 * batch
        assert predicted == pytest.approx(measured, rel=0.05), batch


def test_memory_that_runs_out_is_reported_with_the_batch_that_fits(tmp_path: Path) -> None:
    alerts: list[plimsoll.MemoryAlert] = []
    net = nn.Linear(512, 512)
    with (
        pytest.raises(MemoryError),
        plimsoll.TrainingMonitor(
            output_dir=str(tmp_path), interval=1, profile_tensors=True, on_alert=alerts.append,
            batch_size=256,
        ) as monitor,
    ):  # fmt: skip
        for i in range(3):
            net(torch.randn(256, 512)).sum().backward()
            if i == 2:
                raise MemoryError
            monitor.step()
    (reported,) = (alert for alert in alerts if alert.id == "out_of_memory")
    assert reported.title == "Memory of cpu ran out in iteration 2, whose batch has 256 items"
    assert "for each of the 256 items of a batch" in reported.text
    assert "→ Use a batch of fewer than 256 items: " in reported.text  # there was enough memory
    log = Path(monitor.text_log_path).read_text()
    assert "| batch 256 | out of memory of cpu ===" in log


def test_a_peak_in_the_optimizer_gives_no_batch_estimate(tmp_path: Path) -> None:
    net = nn.Linear(512, 512)
    optimizer = torch.optim.Adam(net.parameters())
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=1, profile_tensors=True, batch_size=1
    ) as monitor:
        for _ in range(3):
            net(torch.randn(1, 512)).sum().backward()
            optimizer.step()
            monitor.step()
    log = Path(monitor.text_log_path).read_text()
    assert log.count("Peak: ") == 3
    assert log.count("Peak phase: optimizer") == 3  # which says nothing about the batch


def test_state_that_was_replaced_since_the_peak_is_not_taken_for_the_batch(tmp_path: Path) -> None:
    net = nn.Linear(1024, 1024)
    optimizer = torch.optim.Adam(net.parameters())

    def replace_state() -> None:
        for state in optimizer.state.values():
            state["exp_avg"] = state["exp_avg"].clone()
            state["exp_avg_sq"] = state["exp_avg_sq"].clone()

    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=10, profile_tensors=True, batch_size=4096
    ) as monitor:
        for i in range(21):
            size = 16384 if i == 14 else 64
            net(torch.randn(size, 1024)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if i in (12, 16):  # no search in between
                replace_state()
            monitor.step()
    samples = Path(monitor.text_log_path).read_text().split("=== ")
    (sample,) = (each for each in samples if each.startswith("Iteration 20"))
    assert "Peak: " in sample
    assert "At peak" not in sample


def test_without_a_batch_size_no_batch_is_advised(tmp_path: Path) -> None:
    alerts: list[plimsoll.MemoryAlert] = []
    with (
        pytest.raises(RuntimeError),
        plimsoll.TrainingMonitor(
            output_dir=str(tmp_path), interval=1, on_alert=alerts.append
        ) as monitor,
    ):
        monitor.step()
        torch.empty(1 << 60)  # fails with the allocator's message
    (reported,) = alerts
    assert reported.id == "out_of_memory"
    assert "batch of" not in reported.text


def test_a_wrong_batch_size_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many: Any = "many"
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=1) as monitor:
        for _ in range(3):
            monitor.step(batch_size=many)
    assert monitor.samples == 3
    assert capsys.readouterr().err.count("TrainingMonitor.step(): batch_size='many'") == 1
