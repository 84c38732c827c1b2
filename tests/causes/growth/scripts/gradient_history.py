"""Multi-task training with gradient surgery; gradients of past steps measure how tasks conflict."""

from collections import deque

import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, inputs=128, width=256, tasks=3):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.heads = nn.ModuleList(nn.Linear(width, 1) for _ in range(tasks))

    def forward(self, x):
        h = self.trunk(x)
        return [head(h).squeeze(1) for head in self.heads]


class ConflictMeter:
    def __init__(self, window=10_000):
        self.gradients = deque(maxlen=window)

    def update(self, task, gradient):
        similarity = 0.0
        if self.gradients:
            other, last = self.gradients[-1]
            if other != task:
                similarity = torch.cosine_similarity(gradient, last, dim=0).item()
        self.gradients.append((task, gradient))
        return similarity


def main(steps=30):
    torch.manual_seed(0)
    model = MultiTask()
    shared = list(model.trunk.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    meter = ConflictMeter()
    for step in range(steps):
        x = torch.randn(64, 128)
        targets = [x[:, i] * x[:, i + 1] for i in range(3)]
        losses = [nn.functional.mse_loss(o, t) for o, t in zip(model(x), targets, strict=False)]
        optimizer.zero_grad()
        for task, loss in enumerate(losses):
            gradients = torch.autograd.grad(loss, shared, retain_graph=True)
            flat = torch.cat([g.flatten() for g in gradients])
            conflict = meter.update(task, flat)
        sum(losses).backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, sum(losses).item(), round(conflict, 3))


if __name__ == "__main__":
    main()
