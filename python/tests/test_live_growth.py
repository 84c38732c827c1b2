"""Growth while a program trains: leaks raise an alert, and similar patterns do not."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import plimsoll

Step = Callable[[int], object]
KIB = 1024


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


@pytest.fixture
def net() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))


def floats(kib: int) -> torch.Tensor:
    return torch.zeros(kib * KIB // 4)


def alerts_of(tmp_path: Path, net: nn.Module, step: Step, steps: int = 60) -> list[str]:
    return [str(alert) for alert in run(tmp_path, net, step, steps)]


def run(tmp_path: Path, net: nn.Module, step: Step, steps: int = 60) -> list[plimsoll.MemoryAlert]:
    alerts: list[plimsoll.MemoryAlert] = []
    optimizer = torch.optim.Adam(net.parameters())
    with plimsoll.TrainingMonitor(
        output_dir=str(tmp_path), interval=1, text_log=False, on_alert=alerts.append
    ) as monitor:
        for i in range(steps):
            step(i)
            net(torch.randn(32, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step()
    # Freed memory that malloc keeps is not tested here.
    return [alert for alert in alerts if alert.device != "host"]


@pytest.mark.slow
def test_a_leak_next_to_large_tensors_of_varying_size_is_found(tmp_path, net) -> None:
    kept = []

    def step(i: int) -> torch.Tensor:
        for kib in ((16 + i * 5 % 7) * KIB, 256):
            made = floats(kib)
            if kib == 256:
                kept.append(made)
        return made

    first = run(tmp_path, net, step)[0]
    assert first.id == "memory_growth"
    assert first.device == "cpu"
    assert "256.0 KiB per iteration" in first.title
    assert any("allocations made in these iterations are still live" in e for e in first.evidence)


def test_graphs_that_stay_are_found_with_their_layer(tmp_path, net) -> None:
    losses = []
    found = run(
        tmp_path, net, lambda _: losses.append(net(torch.randn(64, 256)).square().mean()), 30
    )
    of_graphs = [alert for alert in found if alert.id == "activations_stay"]
    assert of_graphs
    # The output of each layer stays live for the next layer.
    assert any("The layer " in each and "leaves most" in each for each in of_graphs[0].evidence)


def test_inputs_that_get_longer_are_not_a_leak(tmp_path, net) -> None:
    batches = {}

    def step(i: int) -> None:
        batches["now"] = net(torch.randn(32 * (1 + i), 256)).detach()

    assert alerts_of(tmp_path, net, step) == []


@pytest.mark.slow
def test_a_second_model_that_is_built_late_is_not_a_leak(tmp_path, net) -> None:
    models = []

    def step(i: int) -> None:
        if i == 25:
            models.append(nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)]))
        for model in models:
            model(torch.randn(8, 512)).mean().backward()

    assert alerts_of(tmp_path, net, step) == []


@pytest.mark.slow
def test_a_queue_that_fills_is_not_a_leak(tmp_path, net) -> None:
    queue: collections.deque[torch.Tensor] = collections.deque(maxlen=16)
    assert alerts_of(tmp_path, net, lambda _: queue.append(floats(KIB))) == []


def test_a_cache_that_fills_is_not_a_leak(tmp_path, net) -> None:
    masks: dict[int, torch.Tensor] = {}

    def step(i: int) -> None:
        length = i * 7 % 12
        if length not in masks:
            masks[length] = floats(KIB)

    assert alerts_of(tmp_path, net, step) == []
