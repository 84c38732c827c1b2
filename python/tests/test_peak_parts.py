"""What the peak of an interval is made of, and what each parameter of a flat model uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import plimsoll
from plimsoll import _record

MB = 1 << 20


@pytest.fixture(autouse=True)
def _end_watching() -> Iterator[None]:
    yield
    plimsoll.stop_monitoring()


def samples_of(tmp_path: Path, train) -> list[_record.MemorySample]:
    samples: list[_record.MemorySample] = []
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=1) as monitor:
        monitor._monitor.on_sample(samples.append)
        train(monitor)
    return samples


def test_a_sample_after_zero_grad_states_what_the_peak_was_made_of(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batch = torch.randn(4096, 256)  # 4 MB; so is each activation

    def train(monitor: plimsoll.TrainingMonitor) -> None:
        for _ in range(3):
            net(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step()

    sample = samples_of(tmp_path, train)[-1]
    (cpu,) = [each for each in sample.devices if each.name == "cpu"]
    live = {share.name: share.size_bytes for share in cpu.categories}
    peak = {share.name: share.size_bytes for share in cpu.at_peak}
    assert "activation" not in live
    assert sum(peak.values()) == cpu.peak_bytes
    assert peak["parameter"] == live["parameter"]
    # The result of the ReLU, and the output; of 4 B each, the loss and its gradient.
    assert peak["activation"] == 2 * 4 * MB + 8
    assert peak["activation_gradient"] > 2 * 4 * MB
    assert cpu.peak_phase == "backward"
    sizes = [tensor.size_bytes for tensor in cpu.peak_tensors]
    assert len(sizes) == 5
    assert sizes == sorted(sizes, reverse=True)
    assert {"activation"} <= {tensor.category for tensor in cpu.peak_tensors}
    (log,) = (tmp_path / "profiles").glob("*.log")
    text = log.read_text()
    assert re.search(r"^At peak: activation_gradient \d", text, re.MULTILINE)
    assert len(re.findall(r"^Tensor at peak: ", text, re.MULTILINE)) == 15


class Splats:
    """As in Gaussian splatting: no module, and named groups of an optimizer."""

    def __init__(self) -> None:
        self._xyz = nn.Parameter(torch.rand(1000, 3))
        self._features_rest = nn.Parameter(torch.rand(1000, 15, 3))
        self.optimizer = torch.optim.Adam(
            [
                {"params": [self._xyz], "name": "xyz"},
                {"params": [self._features_rest], "name": "f_rest"},
            ]
        )


def test_named_groups_have_their_gradient_and_state(tmp_path: Path) -> None:
    splats = Splats()

    def train(monitor: plimsoll.TrainingMonitor) -> None:
        for _ in range(2):
            (splats._xyz.sum() + splats._features_rest.square().sum()).backward()
            splats.optimizer.step()
            monitor.step()

    sample = samples_of(tmp_path, train)[-1]
    components = {each.name: each.size_bytes for each in sample.devices[0].components}
    assert components["xyz/parameters"] == components["xyz/gradients"] == 1000 * 3 * 4
    assert components["f_rest/parameters"] == components["f_rest/gradients"] == 1000 * 45 * 4
    # Two averages, and the step's scalar.
    assert components["f_rest/optimizer_state"] == 2 * components["f_rest/parameters"] + 4
    assert components["xyz/optimizer_state"] == 2 * components["xyz/parameters"] + 4


def densified(splats: Splats) -> None:
    """Double the points, as splatting trainers do."""
    group = splats.optimizer.param_groups[0]
    state = splats.optimizer.state.pop(splats._xyz)
    splats._xyz = nn.Parameter(torch.cat([splats._xyz.detach()] * 2))
    for key in ("exp_avg", "exp_avg_sq"):
        state[key] = torch.zeros_like(splats._xyz)
    splats.optimizer.state[splats._xyz] = state
    group["params"][0] = splats._xyz


def test_a_replaced_parameter_that_is_retained_is_named(tmp_path: Path) -> None:
    """The graph of the last loss retains it until the next iteration."""
    splats, other = Splats(), Splats()

    def train(monitor: plimsoll.TrainingMonitor) -> None:
        for iteration in range(1, 4):
            loss = splats._xyz.sum() + splats._features_rest.square().sum() + other._xyz.sum()
            loss.backward()
            splats.optimizer.step()
            other.optimizer.step()
            if iteration == 2:
                densified(splats)
            monitor.step(loss=loss.item())

    before, at, after = (
        {each.name: each.size_bytes for each in sample.devices[0].components}
        for sample in samples_of(tmp_path, train)
    )
    assert at["xyz/replaced"] == 12000
    assert at["xyz/parameters"] == before["xyz/parameters"] + 12000
    assert after["xyz/parameters"] == at["xyz/parameters"]
    assert not any("replaced" in name for name in before | after)


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.xyz = nn.Parameter(torch.rand(1000, 3))
        self.head = nn.Linear(3, 1)

    def forward(self) -> torch.Tensor:
        return self.head(self.xyz).sum()


def test_parameters_of_the_root_module_are_components_and_those_of_layers_are_not(
    tmp_path: Path,
) -> None:
    model = Flat()

    def train(monitor: plimsoll.TrainingMonitor) -> None:
        model().backward()
        monitor.step()

    components = {
        each.name: each.size_bytes for each in samples_of(tmp_path, train)[-1].devices[0].components
    }
    assert components == {"xyz/parameters": 12000, "xyz/gradients": 12000}


def test_a_snapshot_of_an_iteration_keeps_the_categories_that_the_monitor_knew(
    tmp_path: Path,
) -> None:
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    kept = []
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=1, snapshot_at=[3]) as monitor:
        for _ in range(5):
            kept.append(net(torch.randn(2048, 256)))  # a graph that stays
            monitor.step()
    (path,) = tmp_path.glob("memory_snapshot_iter3*.plim")
    rows = plimsoll.open(path, at="start").tables["by_category"]
    bytes_of = {row["key"]: row["bytes"] for row in rows}
    assert bytes_of.get("unknown", 0) == 0
    assert bytes_of["activation"] >= 3 * 2 * 2 * MB


def test_a_first_sample_between_forward_and_backward_knows_its_activations() -> None:
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    output = net(torch.randn(4096, 256))
    tags: dict[str, float] = {}

    class Writer:
        def add_scalar(self, tag: str, value: float, _iteration: int) -> None:
            tags[tag] = value

    plimsoll.log_tensor_memory_breakdown(Writer(), 0, interval=1)
    # The result of the ReLU, which the last layer saves, and the output.
    assert tags["Memory/Tensor_Category/activations_MB"] == 8
    output.sum().backward()
