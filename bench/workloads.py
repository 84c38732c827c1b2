"""Training steps that the benchmarks repeat: three of the examples, and one of tiny operators."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
Step = Callable[[], None]


@dataclass
class Workload:
    """A training step that can be repeated, and what it trains."""

    step: Step
    model: nn.Module
    optimizer: torch.optim.Optimizer


def example(name: str) -> ModuleType:
    if str(EXAMPLES) not in sys.path:  # for the modules that examples share
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def burgers_unet() -> Workload:
    """The example with its own settings; its batches are loaded once."""
    unet = example("burgers_unet")
    trainer = unet.Trainer(unet.parse_arguments(["--steps", "1000000"]))
    batches = itertools.cycle(list(trainer.loader))

    def step() -> None:
        trainer.optimizer.zero_grad(set_to_none=True)
        trainer.backward(next(batches))
        trainer.update()

    return Workload(step, trainer.model, trainer.optimizer)


def language_model() -> Workload:
    """The example with its own settings."""
    example_ = example("language_model")
    args = example_.parse_arguments([])
    text = example_.Text(args.text, torch.device("cpu"))
    model = example_.LanguageModel(len(text.letters), args)
    optimizer = example_.optimizer_of(model, args)
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        x, y = text.batch(text.train, args.batch_size, args.context, generator)
        example_.loss_of(model, x, y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return Workload(step, model, optimizer)


def gaussian_splatting() -> Workload:
    """The example with its own settings, without densification, so that all steps are alike."""
    splatting = example("gaussian_splatting")
    args = splatting.parse_arguments([])
    target = splatting.picture(None, args.size)
    gaussians = splatting.Gaussians(args.gaussians, torch.Generator().manual_seed(0))
    renderer = splatting.Renderer(args.size, args.tiles_at_once)
    optimizer = splatting.optimizer_of(gaussians, args)
    window = splatting.blur_window(torch.device("cpu"))

    def step() -> None:
        image = renderer(gaussians)
        loss = (image - target).abs().mean() - splatting.similarity(image, target, window)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return Workload(step, gaussians, optimizer)


def micro() -> Workload:
    """Launch-bound: operators so small that nearly all time is torch's own overhead."""
    layers = [part for _ in range(12) for part in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(4, 32)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    return Workload(step, model, optimizer)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "burgers_unet": burgers_unet,
    "language_model": language_model,
    "gaussian_splatting": gaussian_splatting,
    "micro": micro,
}
