"""Kept results of a generator or a teacher, with graphs that no backward uses."""

from __future__ import annotations

import torch
from tests.causes.registry import standalone
from tests.causes.training import step_of
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
