"""Results that a program keeps longer than it needs them, after public reports.
expected_kept.tsv has the expected findings."""

from __future__ import annotations

import copy

import torch
from tests.causes.training import standalone, step_of
from torch import nn
from torch.nn import functional


def generator():
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 24, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 3, 3, padding=1),
        nn.Tanh(),
    )


@standalone("kept")
def pool_of_generated(steps=20, size=12):
    """The discriminator gets pictures from a pool, whose graphs nobody needs."""
    model = generator()
    judge = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 4, 2, 1))
    optimizer = torch.optim.Adam(model.parameters())
    of_judge = torch.optim.Adam(judge.parameters())
    pool = []
    for _ in range(steps):
        real = torch.randn(4, 3, 48, 48)
        fake = model(torch.randn(4, 3, 48, 48))
        pool.append(fake)
        del pool[:-size]
        step_of(of_judge, judge(real).square().mean() - judge(pool[0].detach()).square().mean())
        step_of(optimizer, judge(model(real)).square().mean())


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 24, 3, padding=1)
        self.third, self.last = nn.Conv2d(24, 24, 3, padding=1), nn.Conv2d(24, 1, 3, padding=1)

    def forward(self, x):
        x = torch.sigmoid(self.first(x))
        x = torch.sigmoid(self.second(x))
        return self.last(torch.sigmoid(self.third(x)))


@standalone("kept")
def samples_with_graph(steps=6, samplings=12):
    """Sampling runs the model again and again on its own result."""
    model = Denoiser()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        for _ in range(steps):
            x = torch.randn(4, 1, 32, 32)
            step_of(optimizer, functional.mse_loss(model(x), x))
        x = torch.randn(4, 1, 32, 32)
        for _ in range(samplings):
            x = x - 0.1 * model(x)
        x.mean().item()


@standalone("kept")
def teacher_with_graph(steps=8):
    def network():
        layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())]
        return nn.Sequential(*layers, nn.Linear(256, 10))

    teacher, student = network(), nn.Linear(256, 10)
    optimizer = torch.optim.SGD(student.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(512, 256)
        target = teacher(x)
        step_of(optimizer, functional.mse_loss(student(x), target.detach()))


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(16, 16, 1)

    def forward(self, x):
        return self.head(self.body(x)).softmax(1)


@standalone("kept")
def predictions_of_a_metric(steps=24):
    """A metric that nobody resets keeps predictions and targets. Backward has freed the graphs."""
    model = Segmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    predictions, targets = [], []
    for _ in range(steps):
        x, y = torch.randn(2, 3, 64, 64), torch.randint(0, 16, (2, 64, 64))
        prediction = model(x)
        predictions.append(prediction)
        targets.append(y)
        step_of(optimizer, functional.nll_loss(torch.log(prediction + 1e-6), y))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(2000, 32), nn.Linear(32, 2000)

    def forward(self, x):
        return self.head(self.words(x))


def trained_classifier(steps=6):
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randint(0, 2000, (128,))
        step_of(optimizer, functional.cross_entropy(model(x), x))
    return model


def joined(collected, new):
    return new if collected is None else torch.cat((collected, new))


@standalone("kept")
def logits_concatenated(batches=24):
    """One line makes two tensors longer in turn."""
    model = trained_classifier()
    logits = labels = None
    with torch.no_grad():
        for _ in range(batches):
            x = torch.randint(0, 2000, (128,))
            logits = joined(logits, model(x))
            labels = joined(labels, torch.randint(0, 2000, (1024,)))
    (logits.argmax(-1).sum() + labels.sum()).item()
    del logits, labels
    trained_classifier()


@standalone("kept")
def logits_listed(batches=24):
    model = trained_classifier()
    logits = []
    with torch.no_grad():
        for _ in range(batches):
            logits.append(model(torch.randint(0, 2000, (128,))))
    torch.cat(logits).argmax(-1).sum().item()
    del logits
    trained_classifier()


def learner_of(model):
    learner = copy.deepcopy(model)
    return learner, functional.cross_entropy(learner(torch.randn(32, 256)), torch.zeros(32).long())


@standalone("copied")
def copies_with_create_graph(tasks=16):
    """The .grad of each copy refers to the copy. Python's collector does not free these cycles."""
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(tasks):
        learner, loss = learner_of(model)
        loss.backward(create_graph=True)
        sum(p.grad.square().sum() for p in learner.parameters()).backward()
        step_of(optimizer, model(torch.randn(32, 256)).square().mean())


@standalone("kept")
def exceptions_of_bad_batches(steps=48):
    """Each stored exception retains the frame of its batch, with the graph."""
    model = nn.Sequential(
        nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    failures = []

    def train(x):
        loss = model(x).square().mean()
        if not torch.isfinite(loss):
            raise FloatingPointError(loss.item())
        step_of(optimizer, loss)

    for step in range(steps):
        x = torch.randn(256, 128)
        if step % 3 == 1:
            x[0, 0] = float("nan")
        try:
            train(x)
        except FloatingPointError as error:
            failures.append(error)


@standalone("kept")
def cell_with_retained_graphs(episodes=3, ticks=10):
    """retain_graph=True instead of detach, with a cell that keeps few tensors for each step."""
    cell, head = nn.LSTMCell(32, 128), nn.Linear(128, 32)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=1e-6)
    for _ in range(episodes):
        h = c = torch.zeros(128, 128)
        for _ in range(ticks):
            x = torch.randn(128, 32)
            h, c = cell(x, (h, c))
            functional.mse_loss(head(h), x).backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()


# By program: the finding, and the line that its advice replaces.
EDITS = {
    "kept/pool_of_generated": (
        "graph_without_backward",
        "fake = model(torch.randn(4, 3, 48, 48))",
        "fake = model(torch.randn(4, 3, 48, 48)).detach()",
    ),
    "kept/samples_with_graph": (
        "graph_without_backward",
        "x = x - 0.1 * model(x)",
        "with torch.no_grad():\n                x = x - 0.1 * model(x)",
    ),
    "kept/teacher_with_graph": (
        "graph_without_backward",
        "target = teacher(x)",
        "with torch.no_grad():\n            target = teacher(x)",
    ),
    "kept/logits_concatenated": (
        "peak_outside_training",
        "joined(logits, model(x))",
        "joined(logits, model(x).argmax(-1, keepdim=True))",
    ),
    "kept/logits_listed": (
        "peak_outside_training",
        "model(torch.randint(0, 2000, (128,))))",
        "model(torch.randint(0, 2000, (128,))).argmax(-1, keepdim=True))",
    ),
    "kept/exceptions_of_bad_batches": (
        "memory_growth",
        "failures.append(error)",
        "failures.append(str(error))",
    ),
}
