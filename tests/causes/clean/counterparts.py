"""Correct versions of programs with a mistake in other modules."""

from __future__ import annotations

import gc

import torch
from tests.causes.graph.validations import trained_and_validated
from tests.causes.registry import standalone
from tests.causes.results.programs import make_cycles
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional

WIDTH = 256


@standalone("cycles")
def collections_without_tensors(steps=40):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        make_cycles()
        step_of(optimizer, model(torch.randn(WIDTH, WIDTH)).square().mean())


class Trainer:
    """A model and its optimizer, in a reference cycle while they are used."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.run = self.train

    def train(self, steps=10):
        for _ in range(steps):
            x = torch.randn(64, WIDTH)
            step_of(self.optimizer, functional.mse_loss(self.model(x), x))


@standalone("cycles")
def trainers_collected(folds=4):
    """The collector frees each fold's trainer as soon as the fold has ended."""
    for _ in range(folds):
        Trainer().run()
        gc.collect()


@standalone("everyday")
def running_loss_as_a_number():
    trained_and_validated(lambda total, loss: total + loss.item())


@standalone("everyday")
def gradients_accumulated_in_place(steps=8, batches=4):
    """zero_grad(set_to_none=False), but the peak is in a batch that adds to the gradients."""
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        for _ in range(batches):
            (model(torch.randn(256, 1024)).square().mean() / batches).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


@standalone("reported")
def features_made_before(steps=30):
    """Features of a frozen model, made before the training that uses them."""
    model, head = nn.Linear(64, 1024), nn.Linear(1024, 1)
    with torch.no_grad():
        features = [model(torch.randn(256, 64)) for _ in range(10)]
    optimizer = torch.optim.SGD(head.parameters(), 1e-3)
    for step in range(steps):
        step_of(optimizer, head(features[step % 10]).square().mean())


@standalone("reported")
def tables_by_length(steps=60):
    """A bounded cache that evicts what is used least."""
    cache = {}
    model = nn.GRU(64, 64, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(steps):
        length = 256 + 64 * (step * 7 % 12)
        if length not in cache:
            if len(cache) == 8:
                cache.pop(next(iter(cache)))
            cache[length] = torch.sin(torch.arange(4 * length)[:, None] / 10 + torch.arange(64))
        x = torch.randn(1, 64, 64) + cache[length][:64]
        step_of(optimizer, model(x)[0].square().mean())
