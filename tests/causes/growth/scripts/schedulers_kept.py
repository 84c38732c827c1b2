"""Cyclic training of a tabular ResNet: each cycle starts with a fresh Adam and scheduler."""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class TabNet(nn.Module):
    def __init__(self, features=64, width=384, depth=4):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.body = nn.Sequential(*(Residual(width) for _ in range(depth)))
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(self.body(self.first(x))).squeeze(1)


class CyclicTrainer:
    def __init__(self, model, cycle=4):
        self.model, self.cycle = model, cycle
        self.schedulers = []

    def begin_cycle(self):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.cycle)
        self.schedulers.append(scheduler)
        return optimizer, scheduler

    def fit(self, x, y, cycles):
        for number in range(cycles):
            optimizer, scheduler = self.begin_cycle()
            for chunk in torch.randperm(len(x)).chunk(self.cycle):
                loss = nn.functional.mse_loss(self.model(x[chunk]), y[chunk])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            print(f"cycle {number}: {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}")


def main():
    torch.manual_seed(0)
    x = torch.randn(1024, 64)
    y = x[:, 0] * x[:, 1] + x[:, 2].sin()
    CyclicTrainer(TabNet()).fit(x, y, cycles=10)


if __name__ == "__main__":
    main()
