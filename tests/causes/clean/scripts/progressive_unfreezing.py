"""Finetuning that unfreezes one more stage every few steps, from the top down."""

import torch
from torch import nn
from torch.nn import functional


def stage(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.GroupNorm(4, o), nn.ReLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([stage(3, 32), stage(32, 64), stage(64, 96), stage(96, 128)])
        self.head = nn.Linear(128, 12)

    def forward(self, x):
        for s in self.stages:
            x = s(x)
        return self.head(x.mean((2, 3)))


def main(steps=40, every=8):
    torch.manual_seed(0)
    net = Net()
    net.stages.requires_grad_(False)
    optimizer = torch.optim.Adam(net.head.parameters(), lr=1e-3)
    frozen = list(net.stages)
    for step in range(steps):
        if step and step % every == 0 and frozen:
            top = frozen.pop().requires_grad_(True)
            optimizer.add_param_group({"params": top.parameters(), "lr": 1e-4})
        x, y = torch.rand(8, 3, 64, 64), torch.randint(12, (8,))
        loss = functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item(), len(frozen))


if __name__ == "__main__":
    main()
