"""One forward on a device, without a step, while the host allocates between its layers."""

from __future__ import annotations

import torch
from checks import check
from torch import nn

import plimsoll


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    layers = [each for _ in range(16) for each in (nn.Linear(256, 256), nn.GELU())]
    return nn.Sequential(*layers), (64, 256)


def convolutions() -> tuple[nn.Module, tuple[int, ...]]:
    layers: list[nn.Module] = []
    for _ in range(12):
        layers += [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers), (8, 8, 32, 32)


def transformer() -> tuple[nn.Module, tuple[int, ...]]:
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 16, enable_nested_tensor=False), (4, 32, 64)


def forward_once() -> None:
    """The layers of one forward are no steps, so what it keeps for backward is no growth."""
    for make in (mlp, convolutions, transformer):
        path = f"{make.__name__}.plim"
        with plimsoll.record(path):
            model, shape = make()
            result = model.to("cuda")(torch.randn(*shape).to("cuda"))
        severities = {each["severity"] for each in plimsoll.open(path).findings}
        check(f"{path} has only hints", severities <= {"info"}, severities)
        del result
