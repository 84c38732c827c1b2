"""A pre-activation ResNet; each block collects its inputs for a histogram of the activations."""

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional


class PreActBlock(nn.Module):
    seen: ClassVar[list[torch.Tensor]] = []

    def __init__(self, i, o, stride=1):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(i), nn.BatchNorm2d(o)
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(i, o, 1, stride, bias=False) if stride > 1 or i != o else None

    def forward(self, x):
        y = functional.relu(self.bn1(x))
        short = self.short(y) if self.short is not None else x
        y = self.conv2(functional.relu(self.bn2(self.conv1(y))))
        if self.training:
            PreActBlock.seen.append(y.detach())
        return y + short


class PreActNet(nn.Module):
    def __init__(self, width=16, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        self.layers = nn.Sequential(
            PreActBlock(width, width), PreActBlock(width, 2 * width, 2), PreActBlock(32, 64, 2)
        )
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(
            functional.adaptive_avg_pool2d(functional.relu(self.layers(self.stem(x))), 1).flatten(1)
        )


def main(steps=24):
    torch.manual_seed(0)
    net = PreActNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    for step in range(steps):
        x, y = torch.rand(16, 3, 32, 32), torch.randint(10, (16,))
        loss = functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 8 == 7:
            print(step, loss.item(), PreActBlock.seen[-1].abs().mean().item())


if __name__ == "__main__":
    main()
