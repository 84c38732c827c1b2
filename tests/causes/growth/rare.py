"""Leaks that do not grow at every step."""

from __future__ import annotations

import torch
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn


def network(width=256):
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    return model, torch.optim.Adam(model.parameters())


@standalone("each_tenth")
def pictures_at_each_log(steps=100, every=10):
    model, optimizer = network()
    pictures = []
    for step in range(steps):
        step_of(optimizer, model(torch.randn(64, 256)).square().mean())
        if step % every == 0:
            pictures.append(torch.rand(512, 512))


@standalone("each_fifth")
def evaluations_with_graphs(steps=60, every=5):
    model, optimizer = network()
    curve = []
    for step in range(steps):
        step_of(optimizer, model(torch.randn(64, 256)).square().mean())
        if step % every == 0:
            curve.append(model(torch.randn(512, 256)).square().mean())


@standalone("each_eighth")
def layers_made_in_the_loop(steps=96, every=8):
    """Each evaluation adds an optimizer group for a new probe; none is used again."""
    model, optimizer = network()
    for step in range(steps):
        if step % every == 0:
            probe = nn.Linear(256, 1024)
            optimizer.add_param_group({"params": list(probe.parameters())})
        x = model(torch.randn(64, 256))
        step_of(optimizer, x.square().mean() + probe(x).square().mean())


@standalone("each_step")
def layers_made_at_every_step(steps=30):
    model, optimizer = network()
    probes = []
    for _ in range(steps):
        probes.append(nn.Linear(256, 512))
        optimizer.add_param_group({"params": list(probes[-1].parameters())})
        x = model(torch.randn(64, 256))
        step_of(optimizer, x.square().mean() + probes[-1](x).square().mean())
