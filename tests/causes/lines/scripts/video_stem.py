"""Action recognition; the 3D stem works at full resolution before anything is pooled."""

import torch
from torch import nn
from torch.nn import functional


class Stem(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.conv = nn.Conv3d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm3d(width)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class Stage(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv, self.norm = nn.Conv3d(i, o, 3, 2, 1, bias=False), nn.BatchNorm3d(o)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class ActionNet(nn.Module):
    def __init__(self, actions=8):
        super().__init__()
        self.stem = Stem()
        self.pool = nn.MaxPool3d(4)
        self.stages = nn.Sequential(Stage(24, 48), Stage(48, 64))
        self.head = nn.Linear(64, actions)

    def forward(self, clip):
        return self.head(self.stages(self.pool(self.stem(clip))).mean((2, 3, 4)))


def main(steps=4):
    torch.manual_seed(0)
    model = ActionNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        clips, actions = torch.rand(2, 3, 8, 64, 64), torch.randint(8, (2,))
        loss = functional.cross_entropy(model(clips), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
