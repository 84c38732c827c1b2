"""Evaluations of small models with a graph; tests.causes.clean.small_evaluations has no graph."""

from __future__ import annotations

import itertools

import torch
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional

INPUTS, CLASSES = 64, 10


class Mlp(nn.Module):
    """Linear and ReLU, `depth` times, and a last Linear."""

    def __init__(self, depth=1, width=256):
        super().__init__()
        widths = [INPUTS, *[width] * depth]
        self.hidden = nn.ModuleList(
            nn.Linear(before, after) for before, after in itertools.pairwise(widths)
        )
        self.head = nn.Linear(width, CLASSES)

    def features(self, x):
        for layer in self.hidden:
            x = functional.relu(layer(x))
        return x

    def forward(self, x):
        return self.head(self.features(x))


def samples(count):
    return torch.randn(count, INPUTS), torch.randint(CLASSES, (count,))


def train(model, steps=6, size=256, head=lambda output: output):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        x, labels = samples(size)
        step_of(optimizer, functional.cross_entropy(head(model(x)), labels))


def evaluate(model, batches=2, size=16_000):
    total = 0.0
    for x, labels in [samples(size) for _ in range(batches)]:
        loss = functional.cross_entropy(model(x), labels)
        total += loss.item()
    return total / batches


@standalone("small_evaluation")
def loss_of_the_batch_before():
    """The variable `loss` keeps the graph of a batch while the next one runs."""
    model = Mlp()
    train(model)
    evaluate(model)
    train(model, 3)


@standalone("small_evaluation")
def outputs_of_all_batches():
    model = nn.Sequential(nn.Linear(INPUTS, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    train(model)
    outputs = [model(samples(4000)[0]) for _ in range(8)]
    torch.cat(outputs).softmax(1)
    del outputs
    train(model, 3)


@standalone("small_evaluation")
def everything_in_one_batch():
    model = Mlp(depth=3)
    train(model)
    evaluate(model, batches=1)
    train(model, 3)


@standalone("small_evaluation")
def never_trained():
    evaluate(Mlp(depth=2))
