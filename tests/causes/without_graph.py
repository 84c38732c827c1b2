"""Results that a program collects without a graph, which no_grad and detach do not help; and the
same with a graph. expected_without_graph.tsv has the expected findings."""

from __future__ import annotations

import torch
from tests.causes.training import standalone, step_of
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        mixed, weights = self.attention(x, x, x, average_attn_weights=False)
        return x + self.linear(x + mixed), weights


class Classifier(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        maps = []
        for block in self.blocks:
            x, weights = block(x)
            maps.append(weights)
        return self.head(x[:, 0]), maps


def trained_and_evaluated(evaluation):
    """Trains a classifier, and keeps what it returns in evaluations under `evaluation`."""
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        for _ in range(8):
            logits, _ = model(torch.randn(8, 48, 32))
            step_of(optimizer, functional.cross_entropy(logits, torch.randint(0, 2, (8,))))
        predictions = []
        with evaluation():
            for _ in range(25):
                predictions.append(model(torch.randn(8, 48, 32)))


@standalone("without_graph")
def attention_maps_of_an_evaluation():
    trained_and_evaluated(torch.no_grad)


@standalone("without_graph")
def attention_maps_with_their_graphs():
    trained_and_evaluated(torch.enable_grad)


def encoder():
    layers = [nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128)) for _ in range(3)]
    return nn.Sequential(*layers)


def first_tokens(model, batches=40):
    features = []
    for _ in range(batches):
        features.append(model(torch.randn(16, 48, 128))[:, 0])
    return torch.cat(features)


@standalone("without_graph")
def first_tokens_as_views():
    with torch.no_grad():
        first_tokens(encoder())


@standalone("without_graph")
def first_tokens_in_inference_mode():
    with torch.inference_mode():
        first_tokens(encoder())


@standalone("without_graph")
def first_tokens_of_a_frozen_model():
    """No parameter needs a gradient, so nothing builds a graph, although autograd is on."""
    first_tokens(encoder().requires_grad_(False))


@standalone("without_graph")
def first_tokens_with_their_graphs():
    first_tokens(encoder())


class Recorder:
    """Hooks that compute the norms of gradients by sample. The second one removes what the first
    one appends, but does not run in an evaluation."""

    def __init__(self, linear):
        self.inputs = []
        linear.register_forward_hook(self.forward)
        linear.register_full_backward_hook(self.backward)

    def forward(self, linear, args, output):
        self.inputs.append(args[0].detach())

    def backward(self, linear, to_input, to_output):
        self.norms = to_output[0].square().sum(1) * self.inputs.pop().square().sum(1)


@standalone("without_graph")
def inputs_that_a_hook_collects(epochs=4):
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    recorder = Recorder(model[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    right = 0
    for _ in range(epochs):
        for _ in range(10):
            x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
            step_of(optimizer, functional.cross_entropy(model(x), y))
        with torch.no_grad():
            for _ in range(20):
                x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
                right += (model(x).argmax(1) == y).sum().item()
    return recorder, right
