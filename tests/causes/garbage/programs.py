"""Tensors wait in reference cycles for Python's garbage collector."""

from __future__ import annotations

import torch
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.utils.checkpoint import checkpoint

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
