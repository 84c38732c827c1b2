"""The training loop shared by causes and controls, and the registry of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tests.causes.architectures import ARCHITECTURES, WIDE, Architecture

Program = Callable[[], object]
PROGRAMS: dict[str, Program] = {}  # a name starts with its architecture: "vit/ema_copy"


def program(*names: str, wide: bool = False) -> Callable[[Any], Any]:
    """Register a function under "ARCHITECTURE/NAME" for each of `names`. It gets the architecture;
    with `wide`, the one with many parameters."""

    def register(function: Any) -> Any:
        for name in names:

            def run(name: str = name) -> object:
                return function((WIDE if wide else ARCHITECTURES)[name])

            PROGRAMS[f"{name}/{function.__name__}"] = run
        return function

    return register


def standalone(group: str) -> Callable[[Any], Any]:
    """Register a function unchanged under "GROUP/NAME": it creates its own model."""

    def register(function: Any) -> Any:
        PROGRAMS[f"{group}/{function.__name__}"] = function
        return function

    return register


def held_out(architecture: str) -> Callable[[Any], Any]:
    return standalone(f"held_out_{architecture}")


def step_of(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Training:
    """A model, its optimizer and a plain step."""

    def __init__(self, architecture: Architecture, share: float = 1.0, optimizer=torch.optim.SGD):
        self.architecture = architecture
        self.samples = max(2, int(architecture.samples * share))
        self.model = architecture.model()
        self.optimizer = optimizer(self.model.parameters(), lr=1e-3)

    def batch(self):
        return self.architecture.batch(self.samples)

    def loss(self, *batch):
        return self.architecture.loss(self.model, *(batch or self.batch()))

    def output(self, *batch):
        out = self.model(*(batch or self.batch()))
        return out[0] if isinstance(out, tuple) else out

    def step(self, *batch):
        self.optimizer.zero_grad()
        loss = self.loss(*batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()
