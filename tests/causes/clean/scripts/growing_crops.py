"""Progressive resizing: the crops get larger every few steps."""

import torch
from torch import nn


def main(steps=24):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, 2, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    history = []
    for step in range(steps):
        size = 32 + 8 * (step // 2)
        x, y = torch.rand(16, 3, size, size), torch.randint(10, (16,))
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append((size, loss.item()))
    print(history[-1])


if __name__ == "__main__":
    main()
