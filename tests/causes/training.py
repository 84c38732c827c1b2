"""The training loop shared by planted and clean programs."""

from __future__ import annotations

import torch
from tests.causes.architectures import Architecture


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
