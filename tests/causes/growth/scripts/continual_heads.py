"""Continual learning with one optimizer: each task adds a head, and no old head ever leaves it."""

import torch
from torch import nn
from torch.nn import functional


class Backbone(nn.Module):
    def __init__(self, dim=384):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, dim), nn.ReLU())

    def forward(self, x):
        return self.net(x)


def main(tasks=8, steps=5, classes=1500):
    torch.manual_seed(0)
    backbone = Backbone()
    optimizer = torch.optim.Adam(backbone.parameters(), lr=1e-3)
    for task in range(tasks):
        head = nn.Linear(384, classes)
        optimizer.add_param_group({"params": head.parameters(), "lr": 1e-2})
        for _ in range(steps):
            x, y = torch.rand(16, 3, 16, 16), torch.randint(classes, (16,))
            loss = functional.cross_entropy(head(backbone(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(task, loss.item(), len(optimizer.param_groups))


if __name__ == "__main__":
    main()
