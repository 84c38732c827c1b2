"""The sample right after parameters and optimizer state are replaced."""

import re
from pathlib import Path

import pytest
import torch
from habit_models import mebibytes
from test_000_tensor_breakdown import CATEGORIES, Loop, category
from torch import nn

import plimsoll
from plimsoll import log_tensor_memory_breakdown


def test_the_sample_after_a_densification_is_right(device):
    loop = Loop(device)
    old = nn.Parameter(mebibytes(4, device))
    optimizer = torch.optim.Adam([{"params": [old], "name": "points"}])
    for _ in range(3):
        optimizer.zero_grad()
        old.square().sum().backward()
        optimizer.step()
    loop.run(11)
    rest = category(loop.writer, "parameters") - 4
    state = optimizer.state.pop(old)
    new = nn.Parameter(torch.cat([old.detach(), old.detach()]))
    for key in ("exp_avg", "exp_avg_sq"):
        state[key] = torch.cat([state[key], torch.zeros_like(state[key])])
    optimizer.state[new] = state
    optimizer.param_groups[0]["params"][0] = new
    del old, state
    log_tensor_memory_breakdown(loop.writer, 20, interval=10)
    assert category(loop.writer, "parameters") == pytest.approx(8 + rest, abs=0.01)
    state_mb = loop.writer.last("Memory/Tensor_Other/optimizer_state_MB")
    assert state_mb == pytest.approx(16 + 2 * rest, abs=0.1)
    total = sum(category(loop.writer, name) for name in CATEGORIES)
    unknown = loop.writer.points.get("Memory/Tensor_DType/unknown_MB", [(0, 0.0)])
    at_20 = [value for step, value in unknown if step == 20]
    assert sum(at_20) < 0.01 * total


@pytest.mark.parametrize("profile_tensors", [False, True])
def test_what_densification_replaces_is_right_at_that_iteration(device, tmp_path, profile_tensors):
    points = torch.nn.Parameter(mebibytes(2, device))
    optimizer = torch.optim.Adam([{"params": [points], "lr": 1e-3, "name": "xyz"}])
    options = {"output_dir": str(tmp_path), "interval": 1, "profile_tensors": profile_tensors}
    with plimsoll.TrainingMonitor(**options) as monitor:
        for iteration in range(1, 5):
            optimizer.zero_grad()
            (points * 1.5).square().sum().backward()
            optimizer.step()
            if iteration == 3:
                state = optimizer.state.pop(points)
                new = torch.nn.Parameter(torch.cat([points.detach()] * 3))
                state["exp_avg"] = torch.zeros_like(new)
                state["exp_avg_sq"] = torch.zeros_like(new)
                optimizer.state[new] = state
                optimizer.param_groups[0]["params"][0] = points = new
                del new, state
            monitor.step(iteration)
    text = Path(monitor.text_log_path).read_text()
    after = text.split("=== Iteration 3 ")[1].split("=== Iteration 4 ")[0]
    line = re.search(r"^Categories: .*$", after, re.M)[0]
    assert re.search(r"parameter 6\.0", line), line
    assert re.search(r"optimizer_state 12\.0", line), line
    dtypes = re.search(r"^Dtypes: .*$", after, re.M)[0]
    unknown = re.search(r"unknown ([\d.]+) MB", dtypes)
    assert unknown is None or float(unknown[1]) < 0.18


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(mebibytes(1, "cpu"))


class Renderer(nn.Module):
    def __init__(self):
        super().__init__()
        self.gaussians = Points()

    def forward(self):
        return self.gaussians.points.square().sum()


def test_layers_are_right_after_two_replacements_between_samples(tmp_path):
    model = Renderer()
    optimizer = torch.optim.Adam([{"params": [model.gaussians.points], "name": "xyz"}])
    with plimsoll.TrainingMonitor(output_dir=str(tmp_path), interval=10) as monitor:
        for iteration in range(1, 21):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
            if iteration in (3, 10):
                group = optimizer.param_groups[0]
                state = optimizer.state.pop(group["params"][0])
                new = nn.Parameter(torch.cat([group["params"][0].detach()] * 2))
                for key in ("exp_avg", "exp_avg_sq"):
                    state[key] = torch.cat([state[key]] * 2)
                optimizer.state[new] = state
                group["params"][0] = model.gaussians.points = new
                del new, state
            monitor.step(iteration)
    layers = re.findall(
        r"^Layers: (\S+) ([\d.]+) MB", Path(monitor.text_log_path).read_text(), re.M
    )
    assert [name for name, _ in layers] == ["Renderer.gaussians"] * 2
    assert float(layers[1][1]) == pytest.approx(16, abs=0.1)  # parameter, gradient, state
