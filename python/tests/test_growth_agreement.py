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


def train(tmp_path: Path, leak_bytes: int, steps: int) -> tuple[list[plimsoll.MemoryAlert], Path]:
    net = nn.Linear(64, 64)
    kept = []
    alerts: list[plimsoll.MemoryAlert] = []
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=1, on_alert=alerts.append
    ) as monitor:
        for _ in range(steps):
            net(torch.randn(8, 64)).sum().backward()
            net.zero_grad()
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
