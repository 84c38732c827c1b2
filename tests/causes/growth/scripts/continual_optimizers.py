"""Tasks one after the other: a shared trunk, a head for each task."""

import torch
from torch import nn
from torch.nn import functional


def main(tasks=8, steps=5):
    torch.manual_seed(0)
    trunk = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU())
    heads, optimizers = nn.ModuleList(), []
    for task in range(tasks):
        heads.append(nn.Linear(512, 10))
        optimizers.append(torch.optim.Adam([*trunk.parameters(), *heads[task].parameters()]))
        for _ in range(steps):
            x, y = torch.randn(128, 512), torch.randint(10, (128,))
            loss = functional.cross_entropy(heads[task](trunk(x)), y)
            optimizers[task].zero_grad()
            loss.backward()
            optimizers[task].step()
        print("task", task, loss.item())


main()
