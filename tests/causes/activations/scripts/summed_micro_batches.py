"""Gradient accumulation over eight micro batches of an EfficientNet-like model."""

import torch
from torch import nn
from torch.nn import functional


class SqueezeBlock(nn.Module):
    def __init__(self, width, expand=3):
        super().__init__()
        hidden = width * expand
        self.up, self.norm = nn.Conv2d(width, hidden, 1), nn.GroupNorm(6, hidden)
        self.depth = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(hidden, hidden, 1), nn.Sigmoid()
        )
        self.down = nn.Conv2d(hidden, width, 1)

    def forward(self, x):
        y = functional.silu(self.depth(functional.silu(self.norm(self.up(x)))))
        return x + self.down(y * self.gate(y))


class Net(nn.Module):
    def __init__(self, width=24, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2, 1)
        self.blocks = nn.Sequential(*(SqueezeBlock(width) for _ in range(depth)))
        self.fc = nn.Linear(width, 10)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


def main(steps=4, micro=8):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        total = 0
        for _ in range(micro):
            x, y = torch.rand(4, 3, 48, 48), torch.randint(10, (4,))
            total = total + functional.cross_entropy(model(x), y) / micro
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        print(step, total.item())


if __name__ == "__main__":
    main()
