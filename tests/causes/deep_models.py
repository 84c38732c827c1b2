"""A model of many equal layers, each with a few percent of the peak."""

from __future__ import annotations

import torch
from tests.causes.architectures import Architecture
from tests.causes.training import Training, standalone
from torch import nn


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Deep(nn.Module):
    def __init__(self, width: int = 64, depth: int = 24) -> None:
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, 16)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@standalone("deep")
def equal_layers():
    Training(
        Architecture(
            Deep,
            lambda samples: (torch.randn(samples, 16),),
            lambda model, x: model(x).square().mean(),
            samples=2048,
        )
    ).steps(2)
