"""Growth: the alert, the log and `analyze` have one verdict and one number."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import plimsoll

KIB = 1024


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def findings_of(command: str, log: Path) -> list[dict]:
    ran = subprocess.run([command, "analyze", log, "--json"], capture_output=True, check=True)
    found = json.loads(ran.stdout)["findings"]
    return [each for each in found if each["id"] in ("activations_stay", "memory_growth")]


def train(
    tmp_path: Path, leak_bytes: int, steps: int, longer_bytes: int = 0
) -> tuple[list[plimsoll.MemoryAlert], Path]:
    """Train `net`: a step retains `leak_bytes`, and its batch is `longer_bytes` longer."""
    net = nn.Linear(64, 64)
    kept = []
    alerts: list[plimsoll.MemoryAlert] = []
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=1, on_alert=alerts.append
    ) as monitor:
        for step in range(steps):
            batch = torch.randn(8 + step * longer_bytes // (4 * 64), 64)
            net(batch).sum().backward()
            net.zero_grad()
            if leak_bytes:
                kept.append(torch.zeros(leak_bytes // 4))
            monitor.step()
    (log,) = (tmp_path / "profiles").glob("*.log")
    return [alert for alert in alerts if alert.device == "cpu"], log


def test_a_slow_leak_is_an_alert_and_the_same_number_in_the_log_and_analyze(
    plimsoll_command, tmp_path
) -> None:
    alerts, log = train(tmp_path, 32 * KIB, 80)
    assert alerts
    assert ", 32.0 KiB per iteration" in alerts[-1].title
    lines = re.findall(r"^Growth per iteration: (.*)$", log.read_text(), re.MULTILINE)
    assert lines[-1] == "0.03125 MB"
    (finding,) = findings_of(plimsoll_command, log)
    assert finding["severity"] == "warning"
    assert finding["title"].endswith(": 32.0 KiB per iteration at iteration 79")
    text = subprocess.run([plimsoll_command, "analyze", log], capture_output=True, check=True)
    (row,) = re.findall(r"^ *growth +(.*)$", text.stdout.decode(), re.MULTILINE)
    assert row.split()[2:4] == ["32.0", "KiB"]  # at the end


def test_growth_without_an_alert_is_not_a_finding_of_analyze(plimsoll_command, tmp_path) -> None:
    alerts, log = train(tmp_path, 4 * KIB, 80)  # leaves less than 1 MiB behind
    assert alerts == []
    assert "Growth per iteration: 0.000 MB" in log.read_text()
    assert findings_of(plimsoll_command, log) == []


@pytest.mark.parametrize("steps", [6, 10, 19, 20])
def test_the_alert_the_log_and_analyze_judge_from_the_same_number_of_samples(
    plimsoll_command, tmp_path, steps
) -> None:
    alerts, log = train(tmp_path, 1024 * KIB, steps)
    is_judged = steps >= 20
    assert bool(alerts) == is_judged
    assert ("Growth per iteration: 1.000 MB" in log.read_text()) == is_judged
    assert bool(findings_of(plimsoll_command, log)) == is_judged
    text = subprocess.run([plimsoll_command, "analyze", log], capture_output=True, check=True)
    note = f"Judging growth takes 20 snapshots; this log has {steps}."
    assert (note in text.stdout.decode()) != is_judged


@pytest.mark.parametrize("steps", [12, pytest.param(24, marks=pytest.mark.slow)])
def test_inputs_that_get_longer_are_no_growth(plimsoll_command, tmp_path, steps) -> None:
    alerts, log = train(tmp_path, 0, steps, longer_bytes=1024 * KIB)
    assert alerts == []
    assert findings_of(plimsoll_command, log) == []


@pytest.mark.slow
def test_graphs_that_losses_retain_are_activations_wherever_they_were_built(tmp_path) -> None:
    weight = torch.rand(256, 256, requires_grad=True)
    losses = []
    alerts: list[plimsoll.MemoryAlert] = []
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=2, on_alert=alerts.append
    ) as monitor:
        for _ in range(60):
            losses.append((torch.rand(256, 256) @ weight).exp().mul(0.1).sin().mean())
            losses[-1].backward(retain_graph=True)
            monitor.step()
    grown = {alert.id: alert for alert in alerts if alert.device == "cpu"}
    assert "loss.item()" in grown["activations_stay"].text
