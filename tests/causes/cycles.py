"""Programs whose tensors wait in reference cycles for Python's garbage collector, and similar
programs without a mistake. expected_cycles.tsv has the expected findings."""

from __future__ import annotations

import gc

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

BEFORE = frozenset(PROGRAMS)
WIDTH = 256


class Block(nn.Module):
    """Runs a closure through a reentrant checkpoint; what the closure captures gets its output."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        cache = {"scale": x * 0.5}

        def inner(h):
            return torch.relu(self.inner(h)) + cache["scale"]

        cache["out"] = checkpoint(inner, x, use_reentrant=True)
        return cache["out"]


@standalone("cycles")
def reentrant_checkpoint(steps=60):
    model, head = Block(), nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(steps):
        x = torch.randn(WIDTH, WIDTH, requires_grad=True)
        step_of(optimizer, head(model(x)).mean())


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.output = x * torch.sigmoid(x)
        return ctx.output

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (ctx.output + torch.sigmoid(ctx.output) * (1 - ctx.output))


@standalone("cycles")
def output_kept_on_ctx(steps=400):
    model, head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(steps):
        step_of(optimizer, head(Swish.apply(model(torch.randn(WIDTH, WIDTH)))).mean())


@standalone("cycles")
def exception_with_frames(steps=300):
    """A variable refers to the exception, whose traceback refers to the frame of that variable."""
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def attempt(x):
        failure = None
        scores = model(x).detach().softmax(1)
        try:
            if scores.isfinite().all():
                raise OverflowError
        except OverflowError as error:
            failure = error
        return scores.mean().item() if failure is not None else 0.0

    for _ in range(steps):
        x = torch.randn(WIDTH, WIDTH)
        attempt(x)
        step_of(optimizer, model(x).square().mean())


class Head(nn.Module):
    """Stores one of its own bound methods."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.predict = self.forward

    def forward(self, x):
        return self.inner(x)


@standalone("cycles")
def module_with_bound_method(tasks=80):
    """Each task trains a new head."""
    model = nn.Linear(WIDTH, WIDTH)
    for _ in range(tasks):
        head = Head()
        optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-3)
        step_of(optimizer, head.predict(model(torch.randn(64, WIDTH))).square().mean())


@standalone("cycles")
def outputs_of_an_epoch(epochs=3, batches=40):
    """The program collects outputs and frees them itself, while the collector runs often."""
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        outputs = []
        for _ in range(batches):
            make_cycles()
            out = model(torch.randn(WIDTH, WIDTH))
            step_of(optimizer, out.square().mean())
            outputs.append(out.detach())
        torch.stack([each.std() for each in outputs]).mean().item()


PLANTED = {name for name in PROGRAMS if name not in BEFORE}


def make_cycles(count=1000):
    for _ in range(count):
        cycle = []
        cycle.append(cycle)


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


CLEAN = [name for name in PROGRAMS if name not in BEFORE and name not in PLANTED]
