"""Semi-supervised audio tagging; a consistency score is logged as a tensor that keeps its graph."""

from collections import defaultdict

import torch
from torch import nn
from torch.nn import functional


class Tagger(nn.Module):
    def __init__(self, mels=64, width=64, tags=20):
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 5, padding=2)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2)
        self.norm1, self.norm2 = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.head = nn.Linear(width, tags)

    def forward(self, x):
        x = functional.relu(self.norm1(self.conv1(x)))
        x = functional.relu(self.norm2(self.conv2(x)))
        return self.head(x.mean(2))


class Logger:
    def __init__(self):
        self.values = defaultdict(list)

    def log(self, **values):
        for name, value in values.items():
            self.values[name].append(value)

    def mean(self, name):
        return sum(self.values[name]) / len(self.values[name])


def augment(x):
    return x + 0.1 * torch.randn_like(x)


def consistency(model, x):
    return functional.mse_loss(model(augment(x)), model(augment(x)))


def fit(model, logger, steps=28):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, tags = torch.randn(8, 64, 200), torch.randint(2, (8, 20)).float()
        loss = functional.binary_cross_entropy_with_logits(model(x), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.log(loss=loss.item(), consistency=consistency(model, x))
        if step % 7 == 6:
            print(step, logger.mean("loss"), float(logger.mean("consistency")))


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(Tagger(), Logger())
