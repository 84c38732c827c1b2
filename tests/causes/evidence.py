"""Programs whose evidence contradicts the advice that would be usual for their bytes.

expected_evidence.tsv says what is expected.
"""

from __future__ import annotations

import copy
import io
import weakref

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.nn import functional

BEFORE = frozenset(PROGRAMS)


class Tower(nn.Module):
    def __init__(self, width=512, layers=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


@standalone("evidence")
def target_with_gradients(steps=12):
    """The target network is not frozen: it gets gradients that nothing uses or clears."""
    model = Tower()
    target = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(16, 512)
        step_of(optimizer, functional.mse_loss(model(x), target(x)))


@standalone("evidence")
def ensemble_without_state(steps=8):
    """Each member has its gradients: a third of the peak each, with its parameters."""
    members = [Tower() for _ in range(3)]
    parameters = [each for member in members for each in member.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-3)
    for _ in range(steps):
        x = torch.randn(16, 512)
        step_of(optimizer, sum(functional.mse_loss(member(x), x) for member in members))


@standalone("evidence")
def checkpoint_stays(steps=8):
    """What torch.load returned is live during the whole training."""
    file = io.BytesIO()
    torch.save(Tower().state_dict(), file)
    file.seek(0)
    model = Tower()
    weights = torch.load(file)
    model.load_state_dict(weights)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.randn(16, 512)
        step_of(optimizer, functional.mse_loss(model(x), x))


class Dropped(nn.Module):
    """Every layer is one operator: a dropout keeps its output and its mask."""

    def __init__(self, width=8, layers=5):
        super().__init__()
        for number in range(layers):
            self.add_module(f"conv{number}", nn.Conv2d(width, width, 3, padding=1))
            self.add_module(f"drop{number}", nn.Dropout(0.1))

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


@standalone("evidence")
def layers_of_one_operator(steps=4):
    model = Dropped()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(8, 8, 64, 64)).square().mean())


class Damped(torch.optim.Optimizer):
    """Updates one parameter after the other, with four temporaries."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                doubled = parameter.grad * 2
                size = doubled.abs()
                damping = size.sqrt() + 1
                parameter.sub_(1e-3 * (doubled / damping))


@standalone("evidence")
def update_with_temporaries(steps=6):
    model = nn.Linear(1448, 1448, bias=False)
    optimizer = Damped(model.parameters())
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(8, 1448)).square().mean())


@standalone("evidence")
def gradients_with_graph(steps=24):
    """The .grad of each copy refers to its graph, and its graph to the copy."""
    model = nn.Sequential(nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    leaked = []  # weak references, to free the memory for the next program
    for _ in range(steps):
        task, x = copy.deepcopy(model), torch.randn(256, 128)
        leaked += map(weakref.ref, task.parameters())
        functional.mse_loss(task(x), x).backward(create_graph=True)
        optimizer.zero_grad()
        for parameter, of_task in zip(model.parameters(), task.parameters(), strict=True):
            parameter.grad = of_task.grad.detach().clone()
        optimizer.step()
    for parameter in (each() for each in leaked):
        if parameter is not None:
            parameter.grad = None


class Tables(nn.Module):
    def __init__(self, tables=16, rows=4096, width=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.head = nn.Linear(width, 1)

    def forward(self, rows):
        return self.head(sum(table(rows) for table in self.tables))


@standalone("evidence")
def state_of_embeddings(steps=6):
    """A batch uses few of the rows, and all of them have Adam's state."""
    model = Tables()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        step_of(optimizer, model(torch.randint(4096, (64,))).square().mean())


NAMES = [name for name in PROGRAMS if name not in BEFORE]
