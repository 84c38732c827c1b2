"""Leaks that do not grow at every step, and memory that grows and is freed again."""

from __future__ import annotations

import torch
from tests.causes.training import standalone, step_of
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


def cleared(times, each=20):
    """Grows for `each` steps, then frees everything."""
    model, optimizer = network()
    kept = []
    for step in range(times * each):
        out = model(torch.randn(64, 256))
        step_of(optimizer, out.square().mean())
        kept.append(torch.rand(512, 512))
        if step % each == each - 1:
            kept.clear()


@standalone("saw_tooth")
def cleared_twice():
    cleared(2)


@standalone("saw_tooth")
def cleared_ten_times():
    cleared(10)


@standalone("saw_tooth")
def cleared_and_grows_again():
    """The recording ends in the middle of the third rise."""
    model, optimizer = network()
    kept = []
    for step in range(54):
        step_of(optimizer, model(torch.randn(64, 256)).square().mean())
        kept.append(torch.rand(512, 512))
        if step % 20 == 19:
            kept.clear()
