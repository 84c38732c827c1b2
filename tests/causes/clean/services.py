"""Programs without an optimizer and without a mistake."""

from __future__ import annotations

import collections

import torch
from tests.causes.growth.hooks import network
from tests.causes.registry import standalone
from torch import nn


class Decoder(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.keys, self.values = None, None

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, -1)
        self.keys = key if self.keys is None else torch.cat([self.keys, key], 1)
        self.values = value if self.values is None else torch.cat([self.values, value], 1)
        scores = query @ self.keys.transpose(1, 2) / query.shape[-1] ** 0.5
        return x + self.out(scores.softmax(-1) @ self.values)


@standalone("service")
def keys_and_values_of_one_text(tokens=120):
    """A decoder's cache grows with the text, to its end."""
    model = nn.Sequential(Decoder(), Decoder())
    x = torch.randn(64, 1, 256)
    with torch.inference_mode():
        for _ in range(tokens):
            x = model(x)


@standalone("service")
def window_of_answers(requests=80):
    model, answers = network(), collections.deque(maxlen=12)
    with torch.inference_mode():
        for _ in range(requests):
            answers.append((torch.rand(2, 3, 48, 48), model(torch.rand(2, 3, 48, 48))))


@standalone("service")
def longer_requests_later(requests=60):
    model = network()
    with torch.inference_mode():
        for number in range(requests):
            side = 16 + 2 * (number // 2)
            model(torch.rand(2, 3, side, side)).argmax(1).tolist()


@standalone("extraction")
def mean_of_all_pictures(batches=40):
    model, total = network(), torch.zeros(4, 24, 32, 32)
    with torch.no_grad():
        for _ in range(batches):
            total += model[:5](torch.rand(4, 3, 32, 32))
    return total / batches


@standalone("calibration")
def largest_value_of_each_layer(batches=40):
    model, largest = network(), {}

    def observe(layer, inputs, output):
        before = largest.get(layer)
        largest[layer] = output.amax() if before is None else torch.maximum(before, output.amax())

    for layer in model:
        layer.register_forward_hook(observe)
    with torch.no_grad():
        for _ in range(batches):
            model(torch.rand(4, 3, 32, 32))
    return [value.item() for value in largest.values()]
