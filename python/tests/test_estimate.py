"""`plimsoll.estimate`, compared with what the recorder measures when the same model trains."""

from __future__ import annotations

import copy
import gc
import html
import logging
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import plimsoll

pytestmark = pytest.mark.usefixtures("unwatched")


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.GELU())
        self.up = nn.Conv2d(48, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        high = self.down(image)
        low = self.middle(nn.functional.max_pool2d(high, 2))
        return self.up(torch.cat([high, nn.functional.interpolate(low, scale_factor=2)], 1))


class Tied(nn.Module):
    """A language model whose output projection shares the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.layer(self.embedding(tokens)))
        return logits


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
        self.out = nn.Linear(128, 4)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.lstm(series)[0])
        return result


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Dropout(), nn.Linear(512, 64))
            for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


class Routed(nn.Module):
    """Reads values, which fake tensors do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(128, 128) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.experts[int(x.sum().item() > 0)](x)
        return result


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 10))


def frozen() -> nn.Module:
    model = mlp()
    next(model.children()).requires_grad_(False)
    return model


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def tokens() -> torch.Tensor:
    return torch.randint(0, 1000, (8, 32))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp": (mlp, lambda: torch.randn(64, 256)),
    "unet": (UNet, lambda: torch.randn(4, 3, 64, 64)),
    "transformer": (transformer, lambda: torch.randn(8, 64, 64)),
    "lstm": (Recurrent, lambda: torch.randn(16, 50, 64)),
    "tied": (Tied, tokens),
    "checkpointed": (Checkpointed, lambda: torch.randn(16, 32, 64)),
    "frozen": (frozen, lambda: torch.randn(64, 256)),
    "routed": (Routed, lambda: torch.randn(64, 128)),
}

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": torch.optim.Adam,
    "AdamW amsgrad": lambda parameters: torch.optim.AdamW(parameters, amsgrad=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "SGD momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "RMSprop": torch.optim.RMSprop,
    "Adagrad": torch.optim.Adagrad,
    "Adafactor": torch.optim.Adafactor,
    "foreach": lambda parameters: torch.optim.Adam(parameters, foreach=True),
}


def recorded_peak(
    path: Path,
    make: Callable[[], nn.Module],
    make_batch: Callable[[], torch.Tensor],
    make_optimizer: Callable[[Any], torch.optim.Optimizer],
) -> int:
    """The recorder's figures for three steps."""
    gc.collect()
    with plimsoll.record(path, mode="lite") as recording:
        model, batch = make(), make_batch()
        optimizer = make_optimizer(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            output = model(batch)
            loss = output.sum()
            loss.backward()
            optimizer.step()
        del output, loss
    return recording.peaks["cpu"]


def marked(names: Iterable[str], in_gate: tuple[str, ...]) -> list[Any]:
    """Return parameters of a test. Those outside the gate are marked slow."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=[] if name in in_gate else slow) for name in names]


@pytest.mark.parametrize("name", marked(MODELS, ("mlp", "checkpointed", "frozen", "routed")))
def test_the_peak_is_the_recorders_within_five_percent(name: str, tmp_path: Path) -> None:
    make, make_batch = MODELS[name]
    peak = recorded_peak(tmp_path / "t.plim", make, make_batch, torch.optim.Adam)
    estimate = plimsoll.estimate(make(), make_batch(), optimizer="adam")
    assert estimate.peak_bytes == pytest.approx(peak, rel=0.05)
    assert estimate.dry_run == ("cpu" if name in ("routed", "lstm", "unet") else "fake")


@pytest.mark.parametrize("name", marked(OPTIMIZERS, ("Adam", "SGD momentum", "Adafactor")))
def test_any_optimizer_given_as_a_function_or_as_an_instance(name: str, tmp_path: Path) -> None:
    make = OPTIMIZERS[name]
    peak = recorded_peak(tmp_path / "t.plim", mlp, lambda: torch.randn(64, 256), make)
    model, batch = mlp(), torch.randn(64, 256)
    by_function = plimsoll.estimate(model, batch, optimizer=make)
    instance = make(model.parameters())
    assert plimsoll.estimate(model, batch, optimizer=instance) == by_function
    assert all(float(each["step"]) == 0 for each in instance.state.values())  # Adagrad has state
    model(batch).sum().backward()
    instance.step()
    state = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for each in instance.state.values()
        for tensor in each.values()
        if isinstance(tensor, torch.Tensor)
    }
    assert by_function.optimizer_state_bytes == sum(state.values())
    assert by_function.peak_bytes == pytest.approx(peak, rel=0.05)


def test_parts_are_exact_where_they_can_be_computed() -> None:
    model = Tied().to(torch.bfloat16)
    model.layer.linear1.requires_grad_(False)
    model.register_buffer("table", torch.zeros(100, dtype=torch.float64))
    weights = sum(parameter.numel() * 2 for parameter in model.parameters())
    frozen = sum(parameter.numel() * 2 for parameter in model.layer.linear1.parameters())
    estimate = plimsoll.estimate(model, tokens(), optimizer="SGD")
    assert estimate.weights_bytes == weights
    assert estimate.gradients_bytes == weights - frozen
    assert estimate.optimizer_state_bytes == 0
    assert estimate.buffers_bytes == 800
    assert estimate.inputs_bytes == 8 * 32 * 8
    assert estimate.total_bytes == (
        2 * weights - frozen + 800 + 8 * 32 * 8 + estimate.activations_bytes
    )
    layers = {layer.name: layer for layer in estimate.layers}
    assert layers["embedding"].weights_bytes == 1000 * 64 * 2
    assert layers["head"].weights_bytes == 0
    assert layers["head"].activations_bytes == 8 * 32 * 1000 * 2
    assert sum(layer.activations_bytes for layer in estimate.layers) == estimate.activations_bytes


def test_parameters_that_are_views_of_one_storage_count_once() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            flat = torch.randn(1000)
            self.a, self.b = nn.Parameter(flat[:500]), nn.Parameter(flat[500:])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.a + self.b).sum() * x

    assert plimsoll.estimate(Flat(), torch.ones(1)).weights_bytes == 4000


def test_the_model_and_the_random_state_do_not_change() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(), nn.Flatten())
    batch = torch.randn(2, 3, 8, 8, requires_grad=True)
    model(batch).sum().backward()
    model.eval()
    model[1].train()
    random.seed(1)
    before = copy.deepcopy(model.state_dict())
    gradients = [
        parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
    ]
    training = [module.training for module in model.modules()]
    of_batch = batch.grad
    reads_values = nn.Sequential(model, nn.Linear(288, 128), Routed())
    state, of_python = torch.get_rng_state(), random.getstate()
    assert plimsoll.estimate(model, batch, dry_run="fake").dry_run == "fake"
    assert plimsoll.estimate(reads_values, batch, optimizer="Adam").dry_run == "cpu"
    assert torch.equal(state, torch.get_rng_state())
    assert of_python == random.getstate()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(
        parameter.grad is not None and torch.equal(parameter.grad, was)
        for parameter, was in zip(model.parameters(), gradients, strict=True)
    )
    assert batch.grad is of_batch
    assert [module.training for module in model.modules()] == training
    assert not any(module._forward_hooks for module in model.modules())


def test_a_model_on_the_meta_device_needs_no_memory() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(32768, 32768, bias=False) for _ in range(16)))
    estimate = plimsoll.estimate(model, torch.randn(1, 32768), optimizer=torch.optim.AdamW)
    assert estimate.weights_bytes == 64 << 30
    assert estimate.optimizer_state_bytes == (128 << 30) + 16 * 4


def test_a_model_on_the_meta_device_counts_as_one_on_the_device_of_the_batch() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64)
            self.register_buffer("scale", torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            positions = torch.arange(x.shape[1], device=x.device)
            heads = (self.linear(x) * self.scale + positions[:, None]).unflatten(2, (4, 16))
            heads = heads.transpose(1, 2)
            return nn.functional.scaled_dot_product_attention(heads, heads, heads)

    x = torch.randn(2, 512, 64)
    with torch.device("meta"):
        model = Attention()
    assert plimsoll.estimate(model, x).peak_bytes == plimsoll.estimate(Attention(), x).peak_bytes
    assert all(each.is_meta for each in [*model.parameters(), *model.buffers()])


def test_a_batch_may_be_arguments_by_position_or_by_name_and_the_loss_is_a_choice() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor, *, scale: torch.Tensor | None = None) -> Any:
            y = self.linear(x)
            return {"y": y if scale is None else y * scale, "labels": torch.ones(3)}

    x, scale = torch.randn(8, 64), torch.randn(64)
    by_position = plimsoll.estimate(Model(), (x,))
    by_name = plimsoll.estimate(Model(), {"x": x, "scale": scale})
    assert by_name.inputs_bytes == by_position.inputs_bytes + 256
    chosen = plimsoll.estimate(Model(), [x], loss=lambda output: output["y"].square().mean())
    assert chosen.activations_bytes == by_position.activations_bytes + 4  # the loss
    with pytest.raises(plimsoll.InvalidArgumentError, match="one element"):
        plimsoll.estimate(Model(), x, loss=lambda output: output["y"])


def test_autocast_counts_what_it_casts(tmp_path: Path) -> None:
    batch = torch.randn(64, 256)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        estimate = plimsoll.estimate(mlp(), batch, optimizer="Adam")
    gc.collect()
    with plimsoll.record(tmp_path / "t.plim", mode="lite") as recording:
        model, same = mlp(), batch.clone()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(same).sum()
            loss.backward()
            optimizer.step()
        del same
    assert estimate.peak_bytes == pytest.approx(recording.peaks["cpu"], rel=0.05)


def test_lbfgs_has_a_full_history() -> None:
    model, batch = mlp(), torch.randn(64, 256)
    optimizer = torch.optim.LBFGS(model.parameters(), history_size=3, max_iter=10)
    estimate = plimsoll.estimate(model, batch, optimizer=optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(batch).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    state = next(iter(optimizer.state.values()))
    assert len(state["old_dirs"]) == 3
    vectors = [state["d"], state["prev_flat_grad"], *state["old_dirs"], *state["old_stps"]]
    held = sum(vector.untyped_storage().nbytes() for vector in vectors)
    assert estimate.optimizer_state_bytes == pytest.approx(held, rel=0.01)


def test_a_watched_process_notices_nothing(tmp_path: Path) -> None:
    model = mlp()
    with plimsoll.record(tmp_path / "t.plim") as recording:
        plimsoll.estimate(model, torch.randn(64, 256), optimizer="Adam")
        assert recording.since_step(0) is None
    trace = plimsoll.open(tmp_path / "t.plim")
    assert not any(event["kind"] == "step" for event in trace.tables.get("events", []))


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ("Adamm", "is not one of"),
        (3, "is of type int"),
    ],
)
def test_an_optimizer_that_is_none_is_reported(wrong: object, reported: str) -> None:
    with pytest.raises(plimsoll.InvalidArgumentError, match=reported):
        plimsoll.estimate(mlp(), torch.randn(2, 256), optimizer=wrong)


def test_an_optimizer_of_other_parameters_is_refused() -> None:
    others = torch.optim.SGD([torch.ones(1)])
    with pytest.raises(plimsoll.InvalidArgumentError, match="not the model's"):
        plimsoll.estimate(mlp(), torch.randn(2, 256), optimizer=others)


def test_the_models_own_error_is_raised() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        plimsoll.estimate(mlp(), torch.randn(2, 3))


def test_it_is_printed_in_units_that_fit() -> None:
    lines = str(plimsoll.estimate(mlp(), torch.randn(64, 256), optimizer="Adam")).splitlines()
    assert lines[0] == "Memory estimate (dry run: fake tensors, without a loss)"
    assert [line.split()[0] for line in lines[1:]] == [
        *("weights", "gradients", "optimizer", "buffers", "inputs", "activations"),
        *("total", "peak"),
    ]
    assert lines[1].endswith(" 1.5 MiB")
    assert lines[4].endswith(" 0 B")
    assert lines[5].endswith(" 64.0 KiB")
    assert lines[-1].endswith(" MiB in optimizer")


def test_a_wrong_input_raises_the_model_s_error_and_prints_nothing(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """torch logs a traceback for each operator that fails on fake tensors."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    for dry_run in ("auto", "fake", "cpu"):
        with pytest.raises(RuntimeError, match=r"shapes|reduction dim"):
            plimsoll.estimate(model, torch.randn(2, 3), dry_run=dry_run)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert logging.getLogger("torch._subclasses.fake_tensor").filters == []


@pytest.mark.parametrize(
    ("model", "sample_input", "problem"),
    [
        (torch.nn.Sequential, torch.ones, "the model has no parameters to train"),
        (lambda: torch.nn.Linear(3, 3), lambda _: None, "sample_input is of type NoneType"),
        (lambda: torch.nn.Linear(3, 3), np.ones, "convert it with torch.as_tensor"),
    ],
)
def test_what_cannot_be_estimated_is_named(model, sample_input, problem):
    with pytest.raises(plimsoll.InvalidArgumentError, match=problem):
        plimsoll.estimate(model(), sample_input(3))


def test_notebooks_show_the_figures_and_the_largest_layers() -> None:
    model = nn.Sequential()
    for number in range(12):
        model.add_module(f"<{number}>", nn.Linear(64, 64))
    estimate = plimsoll.estimate(model, torch.zeros(2, 64), optimizer="AdamW")
    shown = estimate._repr_html_()
    text = [html.unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", shown)]
    figures = dict(zip(text[2:18:2], text[3:18:2], strict=True))
    for line in str(estimate).splitlines()[1:-1]:
        name, size = line[2:18].strip(), line[18:].strip()
        assert figures[name] == size
    assert f"peak, in {estimate.peak_phase}" in figures
    layers = [each.name for each in estimate.layers[:10]]
    assert text[21::3] == layers
    assert shown.count("<table>") == 2
    assert "Largest of 12 layers" in shown
