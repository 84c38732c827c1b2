"""Programs without an optimizer, or with Python code in backward, with one planted cause each.

expected_mechanisms.tsv has the expected findings.
"""

from __future__ import annotations

import typing

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.nn import functional

BEFORE = frozenset(PROGRAMS)


def network(width=24):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.Hardswish(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(16 * width, 64),
    ).eval()


@standalone("calibration")
def ranges_by_hooks(batches=30):
    """A hook keeps the outputs of each convolution, for their percentiles."""
    model, outputs = network(), {}

    def observe(layer, inputs, output):
        outputs.setdefault(layer, []).append(output.abs())

    for layer in model:
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(observe)
    with torch.no_grad():
        for _ in range(batches):
            model(torch.rand(4, 3, 32, 32))
    return [torch.cat([each.flatten() for each in kept]).amax() for kept in outputs.values()]


@standalone("extraction")
def maps_of_all_pictures(batches=24):
    """Nothing is allocated between the calls: the pictures exist already."""
    model, pictures, maps = network(), torch.rand(96, 3, 32, 32), []
    with torch.inference_mode():
        for part in pictures.split(96 // batches):
            maps.append(model[:5](part))
            model(part)
    return torch.cat([each.mean((2, 3)) for each in maps])


@standalone("service")
def answers_by_request(requests=40):
    """The cache has an entry for each request; no two are the same."""
    model, answers = network(), {}
    with torch.inference_mode():
        for number in range(requests):
            picture = torch.rand(4, 3, 48, 48)
            answers[number, picture.sum().item()] = model(picture), picture
    return len(answers)


class Clipped(torch.autograd.Function):
    """Keeps the clipped parts of gradients in backward, for statistics."""

    cut: typing.ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        clipped = grad.clamp(-1e-4, 1e-4)
        Clipped.cut.append(grad - clipped)
        return clipped


@standalone("backward")
def cut_gradients_of_a_function(steps=24):
    model = nn.ModuleList((nn.Linear(256, 256), nn.Linear(256, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Clipped.cut.clear()
    for _ in range(steps):
        hidden = Clipped.apply(functional.relu(model[0](torch.randn(256, 256))))
        step_of(optimizer, functional.cross_entropy(model[1](hidden), torch.randint(10, (256,))))
    Clipped.cut.clear()


@standalone("backward")
def history_of_a_hook(steps=24):
    """A hook of the first layer keeps each gradient that passes."""
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []

    def keep_gradient(layer, before, after):
        history.append(after[0] * 1.0)

    model[0].register_full_backward_hook(keep_gradient)
    for _ in range(steps):
        x = torch.randn(256, 256, requires_grad=True)
        step_of(optimizer, functional.cross_entropy(model(x), torch.randint(10, (256,))))
    return len(history)


NAMES = [name for name in PROGRAMS if name not in BEFORE]
