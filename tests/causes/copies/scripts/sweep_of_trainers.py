"""A sweep whose trainers register a method to call at the exit, which keeps each of them."""

import itertools

import torch
from torch import nn

AT_EXIT = []


class MetricsFile:
    def __init__(self):
        self.rows = []

    def write(self, **kw):
        self.rows.append(kw)


class Trainer:
    """Train one configuration and write its metrics, even if the process dies."""

    def __init__(self, lr, hidden, steps):
        self.model = nn.Sequential(
            nn.Linear(256, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 8),
        )
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.steps = steps
        self.metrics = MetricsFile()
        AT_EXIT.append(self.shutdown)

    def shutdown(self):
        self.metrics.rows.clear()

    def fit(self):
        for s in range(self.steps):
            x = torch.randn(64, 256)
            y = torch.randint(8, (64,))
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.metrics.write(step=s, loss=loss.item())
        return loss.item()


def objective(lr, hidden):
    return Trainer(lr=lr, hidden=hidden, steps=4).fit()


grid = itertools.product([1e-4, 3e-4, 1e-3, 3e-3, 1e-2], [640, 704])
results = {cfg: objective(*cfg) for cfg in grid}
print(min(results, key=results.get))
