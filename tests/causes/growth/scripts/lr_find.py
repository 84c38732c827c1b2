"""An LR range test in front of the training: try 28 rates, go on with the best state."""

import copy

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.conv(functional.relu(self.norm(x)))


def lr_find(model, low=1e-5, high=1.0, trials=28):
    curve = []
    for trial in range(trials):
        lr = low * (high / low) ** (trial / trials)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        x, y = torch.randn(8, 3, 16, 16), torch.randint(10, (8,))
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        curve.append((loss.item(), lr, copy.deepcopy(model.state_dict())))
    _, lr, state = min(curve, key=lambda point: point[0])
    model.load_state_dict(state)
    return lr


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 128, 3, stride=2, padding=1),
        *(Residual(128) for _ in range(4)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    print("lr", lr_find(model))


main()
