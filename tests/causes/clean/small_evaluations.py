"""Evaluations of small models without a graph."""

from __future__ import annotations

import torch
from tests.causes.graph.small_evaluations import Mlp, evaluate, samples, train
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch.nn import functional

INPUTS, CLASSES = 64, 10


class WithFeatures(Mlp):
    def forward(self, x):
        features = self.features(x)
        return features, self.head(features)


@standalone("small_evaluation")
def without_a_graph():
    for depth in (1, 3):
        model = Mlp(depth)
        train(model)
        with torch.no_grad():
            evaluate(model)
        train(model, 3)


@standalone("small_evaluation")
def never_trained_without_a_graph():
    with torch.inference_mode():
        evaluate(Mlp(depth=2))


@standalone("small_evaluation")
def features_of_all_batches():
    """The model returns the tensors that a graph would keep."""
    model, kept = WithFeatures(), []
    train(model, head=lambda output: output[1])
    with torch.no_grad():
        for _ in range(2):
            features, output = model(samples(16_000)[0])
            kept.append((features, functional.softmax(output, 1)))
    del kept, features, output
    train(model, 3, head=lambda output: output[1])


@standalone("small_evaluation")
def consistency():
    """The targets are features without a graph; the next operator outside modules builds one."""
    model = WithFeatures()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(12):
        x, labels = samples(8000)
        with torch.no_grad():
            features, targets = model(x)
        now, output = model(x + 0.1 * torch.randn_like(x))
        loss = functional.mse_loss(now, features) + functional.mse_loss(output, targets)
        step_of(optimizer, loss + functional.cross_entropy(output, labels))


@standalone("small_evaluation")
def large_batches():
    train(Mlp(), steps=12, size=32_000)
