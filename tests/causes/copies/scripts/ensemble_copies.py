"""Mean teacher with an average of several speeds: four exponential averages of one network."""

import copy

import torch
from torch import nn
from torch.nn import functional


class AudioNet(nn.Module):
    def __init__(self, width=512, classes=30):
        super().__init__()
        self.conv = nn.Conv1d(64, width, 5, 2)
        self.body = nn.Sequential(nn.Conv1d(width, width, 3, 2), nn.ReLU())
        self.fc1, self.fc2 = nn.Linear(width, 1024), nn.Linear(1024, classes)

    def forward(self, x):
        return self.fc2(functional.relu(self.fc1(self.body(functional.relu(self.conv(x))).mean(2))))


class Averages:
    def __init__(self, model, decays=(0.9, 0.99, 0.999, 0.9999)):
        self.models = {decay: copy.deepcopy(model).requires_grad_(False) for decay in decays}

    @torch.no_grad()
    def update(self, model):
        for decay, average in self.models.items():
            for a, p in zip(average.parameters(), model.parameters(), strict=False):
                a.lerp_(p, 1 - decay)


def main(steps=12):
    torch.manual_seed(0)
    model = AudioNet()
    averages = Averages(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x, y = torch.randn(4, 64, 80), torch.randint(30, (4,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averages.update(model)
        if step % 4 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
