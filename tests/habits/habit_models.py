"""Small models and training loops for the tests of habits."""

from __future__ import annotations

from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

MB = 1024 * 1024


class Net(nn.Module):
    """Named layers, some of them nested, one without parameters, and a buffer."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Linear(width, 2 * width)
        self.act = nn.ReLU()
        self.middle = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.Tanh())
        self.head = nn.Linear(2 * width, 4)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.middle(self.act(self.encoder(x * self.scale))))


LAYERS = {"encoder", "act", "middle", "middle.0", "middle.1", "head"}


def make(device: str, width: int = 128, batch: int = 64) -> tuple[Net, torch.Tensor]:
    """The model and a batch for it, the same at each call."""
    torch.manual_seed(0)
    return Net(width).to(device), torch.randn(batch, width).to(device)


def mebibytes(count: float, device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor of exactly this many MB."""
    size = torch.empty((), dtype=dtype).element_size()
    return torch.zeros(int(count * MB) // size, dtype=dtype).to(device)


class Writer:
    """A stub of SummaryWriter that stores the scalars."""

    def __init__(self) -> None:
        self.points: dict[str, list[tuple[int, float]]] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.points.setdefault(tag, []).append((global_step, float(scalar_value)))

    def last(self, tag: str) -> float:
        return self.points[tag][-1][1]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the scalars that TensorBoard's own reader finds in a folder of event files."""
    read = EventAccumulator(str(folder))
    read.Reload()
    return {
        tag: [(each.step, each.value) for each in read.Scalars(tag)]
        for tag in read.Tags()["scalars"]
    }
