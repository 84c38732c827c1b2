"""Mistakes that people often report, written as they write them. expected_everyday.tsv has the
expected findings."""

from __future__ import annotations

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.nn import functional

BEFORE = frozenset(PROGRAMS)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.head(x.mean((2, 3)))


def pictures():
    return torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))


def trained_and_validated(add):
    """Trains a small network, and adds up the losses of a validation with `add`."""
    model, criterion = Pictures(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(2):
        for _ in range(10):
            x, y = pictures()
            step_of(optimizer, criterion(model(x), y))
        running_loss = 0.0
        for _ in range(15):
            x, y = pictures()
            running_loss = add(running_loss, criterion(model(x), y))


@standalone("everyday")
def running_loss_of_a_validation():
    """The criterion is a module, as in most programs."""
    trained_and_validated(lambda total, loss: total + loss)


@standalone("everyday")
def hidden_state_with_its_graph(windows=20):
    """Truncated backpropagation through time without detach: retain_graph=True hides the error."""
    model, head = nn.GRU(32, 128, batch_first=True), nn.Linear(128, 32)
    parameters = [*model.parameters(), *head.parameters()]
    hidden = torch.zeros(1, 16, 128)
    for _ in range(windows):
        x = torch.randn(16, 32, 32)
        y, hidden = model(x, hidden)
        functional.mse_loss(head(y), x).backward(retain_graph=True)
        for parameter in parameters:
            parameter.data.sub_(parameter.grad, alpha=1e-6)
            parameter.grad = None


@standalone("everyday")
def losses_of_sequences_summed(steps=4, sequences=12):
    model = nn.LSTM(32, 128, num_layers=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = 0.0
        for _ in range(sequences):
            loss = loss + model(torch.randn(64, 8, 32))[0].square().mean()
        step_of(optimizer, loss)


def wide_model():
    return nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 2))


@standalone("everyday")
def folds_with_their_optimizers(folds=8):
    """Cross-validation keeps each fold's model and optimizer."""
    results = []
    for _ in range(folds):
        model = wide_model()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(8):
            step_of(optimizer, model(torch.randn(32, 128)).square().mean())
        results.append((model, optimizer))


@standalone("everyday")
def schedulers_of_all_epochs(epochs=6):
    """A new optimizer for each epoch; the list of schedulers retains the old ones. One parameter
    has most of the state."""
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024))
    schedulers = []
    for _ in range(epochs):
        optimizer = torch.optim.Adam(model.parameters())
        schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 5))
        for _ in range(4):
            step_of(optimizer, model(torch.randn(16, 64)).square().mean())
        schedulers[-1].step()


class Attention(nn.Module):
    def __init__(self, width=64, heads=8):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        q, k, v = self.inputs(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        weights = (q @ k.transpose(-1, -2)).softmax(-1)
        x = x + (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return x, weights, (k, v)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention(width=128) for _ in range(4))

    def forward(self, x, caches):
        new = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, _, longer = layer(x, cache)
            new.append(longer)
        return x[:, -1:], new


@standalone("everyday")
def generation_with_graph(tokens=80):
    """The cache of keys and values retains the graph of all tokens before."""
    model = Decoder().eval()
    x, caches = torch.randn(8, 8, 128), [None] * 4
    for _ in range(tokens):
        x, caches = model(x, caches)


@standalone("everyday")
def features_concatenated(batches=80):
    """torch.cat copies all earlier features at each batch."""
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU()).eval()
    features = torch.empty(0, 1024)
    with torch.no_grad():
        for _ in range(batches):
            features = torch.cat([features, model(torch.randn(64, 64))])


@standalone("everyday")
def column_minus_row(steps=8):
    """The prediction is [N, 1] and the target [N]: the difference is [N, N]."""
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(2048, 16), torch.randn(2048)
    for _ in range(steps):
        step_of(optimizer, (model(x) - y).square().mean())


@standalone("penalty")  # what it leaks is never freed, so it is recorded in a process of its own
def penalty_by_backward(steps=40):
    """x.grad has a graph that refers to x: neither is ever freed."""
    model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(256, 128, requires_grad=True)
        model(x).mean().backward(create_graph=True)
        step_of(optimizer, (x.grad.norm(dim=1) - 1).square().mean())


@standalone("everyday")
def embedding_with_dense_gradient(steps=6):
    model = nn.Sequential(nn.Embedding(40_000, 64), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        step_of(optimizer, model(torch.randint(0, 40_000, (64,))).square().mean())


PLANTED = {name for name in PROGRAMS if name not in BEFORE}

# By program: the finding, and what its advice changes in the program.
EDITS = {
    "everyday/hidden_state_with_its_graph": (
        "activations_dominate",
        "model(x, hidden)",
        "model(x, hidden.detach())",
    ),
    "everyday/losses_of_sequences_summed": (
        "activations_dominate",
        "loss = loss + model(torch.randn(64, 8, 32))[0].square().mean()\n"
        "        step_of(optimizer, loss)",
        "model(torch.randn(64, 8, 32))[0].square().mean().backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()",
    ),
    "everyday/folds_with_their_optimizers": (
        "model_copies",
        "results.append((model, optimizer))",
        "del model, optimizer",
    ),
    "everyday/schedulers_of_all_epochs": (
        "optimizer_state_dominates",
        "schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 5))",
        "schedulers[:] = [torch.optim.lr_scheduler.StepLR(optimizer, 5)]",
    ),
    "everyday/generation_with_graph": (
        "memory_growth",
        "Decoder().eval()",
        "Decoder().eval().requires_grad_(False)",
    ),
    "everyday/features_concatenated": (
        "one_line_dominates",
        "torch.empty(0, 1024)\n"
        "    with torch.no_grad():\n"
        "        for _ in range(batches):\n"
        "            features = torch.cat([features, model(torch.randn(64, 64))])",
        "torch.empty(batches, 64, 1024)\n"
        "    with torch.no_grad():\n"
        "        for batch in range(batches):\n"
        "            features[batch] = model(torch.randn(64, 64))",
    ),
    "everyday/embedding_with_dense_gradient": (
        "one_tensor_dominates",
        "nn.Embedding(40_000, 64)",
        "nn.Embedding(40_000, 64, sparse=True)",
    ),
}


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


CLEAN = [name for name in PROGRAMS if name not in BEFORE and name not in PLANTED]
