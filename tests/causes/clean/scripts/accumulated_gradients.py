"""Gradients of four micro batches are accumulated before each step, with items for the log."""

import torch
from torch import nn


def main(steps=16, micro=4):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(2048, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    log = []
    for step in range(steps):
        total = 0.0
        for _ in range(micro):
            x, y = torch.rand(8, 3, 32, 32), torch.randint(10, (8,))
            loss = nn.functional.cross_entropy(model(x), y) / micro
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()
        log.append((step, total, scheduler.get_last_lr()[0]))
    print(log[-1])


if __name__ == "__main__":
    main()
