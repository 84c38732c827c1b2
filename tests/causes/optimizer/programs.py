"""The state of an optimizer, or temporaries of its update, fill the peak."""

from __future__ import annotations

import functools

import torch
from tests.causes.models import residual_network
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional


@program("mlp", "transformer", "lstm", wide=True)
def adam_state(architecture):
    training = Training(architecture, optimizer=functools.partial(torch.optim.Adam, foreach=False))
    training.steps(3)


@program("vit", "moe", wide=True)
def foreach_scratch(architecture):
    training = Training(architecture, optimizer=functools.partial(torch.optim.Rprop, foreach=True))
    training.steps(3)


class Sharpness(torch.optim.Optimizer):
    """SAM: a step up, a second gradient there, then a step down from the starting point."""

    def __init__(self, parameters, lr=0.01, rho=0.05):
        super().__init__(parameters, {"lr": lr, "rho": rho})

    @torch.no_grad()
    def first_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["before"] = p.clone()
                self.state[p]["up"] = group["rho"] * p.grad
                self.state[p]["velocity"] = self.state[p].get("velocity", 0) * 0.9 + p.grad
                p.add_(self.state[p]["up"])

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["before"]).sub_(p.grad, alpha=group["lr"])


@standalone("held_out_sam")
def three_copies_per_parameter(steps=14):
    model = residual_network()
    optimizer = Sharpness(model.parameters())
    for _ in range(steps):
        x, labels = torch.randn(16, 1024), torch.randint(10, (16,))
        functional.cross_entropy(model(x), labels).backward()
        optimizer.first_step()
        optimizer.zero_grad()
        functional.cross_entropy(model(x), labels).backward()
        optimizer.step()
        optimizer.zero_grad()


@standalone("held_out_lbfgs")
def long_history(steps=30):
    model = residual_network(384, depth=3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=1, history_size=10)
    x, y = torch.randn(64, 384), torch.randn(64, 10)

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


@standalone("ranker")
def adam_state_of_bags(steps=12):
    """Two bags of many rows, of which each batch uses a few."""

    class Ranker(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.EmbeddingBag(120_000, 48)
            self.people = nn.EmbeddingBag(90_000, 48)
            self.score = nn.Linear(96, 1)

        def forward(self, words, people):
            return self.score(torch.cat([self.words(words), self.people(people)], 1))

    model = Ranker()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(steps):
        words, people = torch.randint(120_000, (64, 20)), torch.randint(90_000, (64, 5))
        step_of(optimizer, model(words, people).square().mean())


@standalone("phases")
def optimizer_of_each_phase(phases=6, steps=4):
    """Each phase creates an optimizer; all are kept for the history of learning rates."""
    model = nn.Sequential(nn.Linear(600, 800), nn.ReLU(), nn.Linear(800, 600))
    history = {}
    for phase in range(phases):
        history[phase] = torch.optim.RMSprop(model.parameters(), lr=0.1**phase, momentum=0.9)
        for _ in range(steps):
            x = torch.randn(32, 600)
            step_of(history[phase], functional.mse_loss(model(x), x))


@standalone("second_order")
def history_is_full(iterations=30, history_size=6):
    """One large matrix, so a vector of all parameters is about as large as the matrix."""
    model = nn.Sequential(nn.Linear(1000, 1200), nn.Tanh(), nn.Linear(1200, 10))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, history_size=history_size)
    x, y = torch.randn(64, 1000), torch.randn(64, 10)

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(iterations):
        optimizer.step(closure)


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
